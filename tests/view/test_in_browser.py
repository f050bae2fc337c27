"""`returnn view`, clicked through in a browser."""

import json

import pytest

import returnn.__main__ as rnn
from returnn.serve.http_service import HttpService, Limits
from returnn.view.command import Viewer
from tests.in_browser import browser, texts, wait_until
from tests.view.files import END, EPOCH, PNG, SEARCH, START, write_record

EPOCHS = [
    {**EPOCH, "epoch": i, "time": 1010.0 + i, "scores": {"dev_score": 2 / i, "dev_error": 1 / i, "train_score": 1 / i}}
    for i in (1, 2, 3)
]


@pytest.fixture
def runs(tmp_path):
    for name, size in (("one", 5), ("two", 7)):
        start = {**START, "options": {"batch_size": size, "num_epochs": 3}}
        samples = [
            {"tag": "<b>seq</b>", "hypothesis": "a x c", "reference": "a b c d"},
            {"tag": "</script><script>document.title = 'broken'</script>", "hypothesis": "a", "reference": "b"},
        ]
        searches = [{**SEARCH, "samples": samples}, {**SEARCH, "time": 1040.0, "scores": ["WER 25%"], "samples": []}]
        write_record(tmp_path / name / "net.run.jsonl", start, *EPOCHS, *searches, END)
        (tmp_path / name / "attention").mkdir()
        for epoch in (1, 2):
            (tmp_path / name / "attention" / f"epoch-{epoch}-seq.png").write_bytes(PNG)
    return tmp_path


def look_at(driver, url):
    """Looks at all of the page of two runs, with and without one of them."""
    driver.get(url)
    wait_until(driver, lambda driver: len(driver.find_elements("css selector", ".uplot canvas")) == 5)
    assert driver.title != "broken"
    headings = texts(driver, "h2")
    assert set(headings) >= {"Runs", "What their configs differ in", "Epochs", "Time and memory", "Time line"}
    assert texts(driver, ".u-title") == ["error", "score", "learning rate", "time of an epoch", "memory"]
    assert [text for text in texts(driver, "tr") if text.startswith("batch_size")] == ["batch_size 5 7"]
    images = driver.find_elements("css selector", "img")
    assert len(images) == 4
    for image in images:
        driver.execute_script("arguments[0].scrollIntoView()", image)
        wait_until(driver, lambda driver, image=image: driver.execute_script("return arguments[0].naturalWidth", image))
    labels = ".u-series .u-label"
    assert [text for text in texts(driver, labels) if text.startswith("two")]
    driver.execute_script("scrollTo(0, 0)")
    driver.find_elements("css selector", "input[type=checkbox]")[-1].click()
    wait_until(driver, lambda driver: not [text for text in texts(driver, labels) if text.startswith("two")])
    assert texts(driver, labels)


def test_exported_page(runs, tmp_path):
    page = tmp_path / "page.html"
    rnn.main(["returnn", "view", str(runs / "one"), str(runs / "two"), "--export", str(page)])
    with browser(tmp_path) as driver:
        look_at(driver, page.as_uri())


def test_served_page_follows_a_run(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("returnn.view.command._SECONDS_BETWEEN_READS", -1.0)
    viewer = Viewer([str(runs / "one"), str(runs / "two")])
    service = HttpService("localhost", 0, viewer.routes(), limits=Limits(), option="x")
    with service.running(), browser(tmp_path) as driver:
        look_at(driver, service.url)
        with open(runs / "one" / "net.run.jsonl", "a") as file:
            file.write(json.dumps({**EPOCH, "epoch": 4, "time": 1100.0}) + "\n")
        wait_until(driver, lambda driver: any("4 of 3" in text for text in texts(driver, "tr")))
        select = driver.find_element("css selector", "select")
        select.find_elements("css selector", "option")[0].click()
        wait_until(driver, lambda driver: "<b>seq</b>" in texts(driver, ".sample .tag"))
        assert (texts(driver, ".sample del"), texts(driver, ".sample ins")) == (["b", "d", "b"], ["x", "a"])
