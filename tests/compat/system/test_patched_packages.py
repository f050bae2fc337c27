import signal
import sys
from types import ModuleType

from returnn.util.basic import monkeyfix_glib, monkeypatch_audioread


def fake_module(monkeypatch, name, **attributes):
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_glib_leaves_sigint_alone(monkeypatch):
    calls = []
    glib = fake_module(monkeypatch, "gi.repository.GLib", unix_signal_add=lambda *args: calls.append(args) or 7)
    fake_module(monkeypatch, "gi.repository", GLib=glib)
    fake_module(monkeypatch, "gi")
    monkeyfix_glib()
    monkeyfix_glib()
    assert glib.unix_signal_add(0, signal.SIGINT, print) == 0
    assert glib.unix_signal_add(0, signal.SIGTERM, print) == 7
    assert calls == [(0, signal.SIGTERM, print)]


def test_audioread_looks_once(monkeypatch):
    calls = []
    audioread = fake_module(monkeypatch, "audioread", _gst_available=lambda: calls.append(1) or True)
    monkeypatch_audioread()
    assert audioread._gst_available()
    assert audioread._gst_available()
    assert calls == [1]


def test_nothing_happens_where_the_packages_are_missing(monkeypatch):
    for name in ("gi", "gi.repository", "gi.repository.GLib", "audioread"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeyfix_glib()
    monkeypatch_audioread()
