"""Linear maps with exact adjoints: their algebra, projectors, filters, and the compiled loops behind them."""
