"""
Pages as people see them: in Chromium without a window.

Chromium and its driver are no packages of Python (Debian: `apt install chromium chromium-driver`): tests are skipped
where they are not installed.
"""

import contextlib
import os
import shutil

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.support.ui import WebDriverWait

LIMIT_S = 60  # of a machine with other work
SIZE = (1300, 1000)


@contextlib.contextmanager
def browser(tmp_path):
    """:return: context: a driver of Selenium. In the end, no page may have left an error in the console"""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver_path = shutil.which("chromedriver")
    if not (chromium and driver_path):
        pytest.skip("there is no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless", "--disable-gpu", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(argument)
    service = webdriver.ChromeService(driver_path, env={**os.environ, "HOME": str(tmp_path)})
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_window_size(*SIZE)
        yield driver
        errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not [entry for entry in errors if entry["source"] != "network"]  # answers that refuse are there, too
    finally:
        driver.quit()


def wait_until(driver, what):
    """
    :param driver: of Selenium
    :param what: function of the driver; elements that are gone while it runs are looked for again
    :return: its first value that is true
    """
    return WebDriverWait(driver, LIMIT_S, 0.1, ignored_exceptions=[StaleElementReferenceException]).until(what)


def texts(driver, selector):
    """:return: of all elements that are shown"""
    return [element.text for element in driver.find_elements("css selector", selector) if element.is_displayed()]
