"""The planner page in a real browser, and what is to be seen on it."""

import contextlib
import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextlib.contextmanager
def chromium(playwright):
    """A Chromium that has started; where none starts, as without user namespaces, tests are skipped."""
    with playwright.sync_playwright() as running:
        try:
            browser = running.chromium.launch(executable_path=CHROMIUM)
        except playwright.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


def table(page):
    """Return {arch: {head: text}} as they are on the page."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#body tr")].map((row) => [row.dataset.arch,
        Object.fromEntries([...row.querySelectorAll("td")].map((cell) => [cell.dataset.head,
        cell.querySelector(".value").firstChild.data.trim()]))]))"""
    )


def clipped(page):
    """Return the texts that are cut off, or that leave the page."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main *:not(.unseen):not(option)")]
        .filter((e) => e.childElementCount === 0 && e.textContent.trim() && e.getClientRects().length)
        .filter((e) => { const box = e.getBoundingClientRect();
          const frame = (e.closest("svg") || document.documentElement).getBoundingClientRect();
          const outside = box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5;
          return outside || (!e.closest("svg") && e.clientWidth && e.scrollWidth > e.clientWidth + 1);
        }).map((e) => e.textContent)"""
    )


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const against = (colour) => {
    const [a, b] = [light(colour), paper].sort((a, b) => a - b);
    return (b + 0.05) / (a + 0.05);
  };
  const texts = [...document.querySelectorAll("p, td, th, label, code, .law, .detail")]
    .map((e) => getComputedStyle(e).color);
  const curves = [...document.querySelectorAll("#plot .arch path[fill=none]")].map((e) => getComputedStyle(e).stroke);
  return [Math.min(...texts.map(against)), Math.min(...curves.map(against))];
}"""
