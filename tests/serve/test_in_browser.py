"""The page of `++task serve`, used in a browser: text, audio, numbers, and what is wrong."""

from tests.in_browser import browser, texts, wait_until
from tests.serve.test_model_service import ModelOfTests, audio, serving


def send(driver, form):
    """:return: texts of the cells of the answer, and the error"""
    driver.find_element("css selector", f"#{form}-form button").click()
    wait_until(driver, lambda driver: texts(driver, "#output td") or "".join(texts(driver, "#error")))
    return texts(driver, "#output td"), "".join(texts(driver, "#error"))


def test_text(tmp_path):
    with serving(ModelOfTests()) as url, browser(tmp_path) as driver:
        driver.get(url)
        wait_until(driver, lambda driver: texts(driver, "#text-form"))
        assert not texts(driver, "#audio-form")
        box = driver.find_element("css selector", "#text")
        box.send_keys("hello hello")
        assert send(driver, "text") == (["-2.000", "data2"], "")
        box.clear()
        box.send_keys("world")
        cells, error = send(driver, "text")
        assert not cells
        assert "the world is too large" in error
        box.clear()
        box.send_keys("hello")  # the page goes on
        assert send(driver, "text") == (["-1.000", "data1"], "")


def test_audio_and_numbers(tmp_path):
    good, wrong = tmp_path / "good.wav", tmp_path / "wrong.wav"
    good.write_bytes(audio(0.5))
    wrong.write_bytes(b"RIFFxxxx")
    with serving(ModelOfTests(frames=True)) as url, browser(tmp_path) as driver:
        driver.get(url)
        wait_until(driver, lambda driver: texts(driver, "#audio-form"))
        assert send(driver, "audio") == ([], "Choose an audio file first.")
        file = driver.find_element("css selector", "#audio")
        file.send_keys(str(good))

        cells, error = send(driver, "audio")
        assert cells[1].startswith("data")
        assert not error
        file.send_keys(str(wrong))
        cells, error = send(driver, "audio")
        assert not cells
        assert error.startswith("the input: ")
