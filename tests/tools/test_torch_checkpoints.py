"""Scripts about checkpoints of PyTorch."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def files(tmp_path):
    for epoch in (1, 2):
        model = {"a.weight": torch.full((2, 3), float(epoch)), "count": torch.tensor(epoch)}
        torch.save({"model": model, "epoch": epoch}, tmp_path / f"epoch.{epoch}.pt")
    return tmp_path


def test_inspect(tool, files):
    status, out, err = tool("torch_inspect_checkpoint", files / "epoch.2.pt", "--stats")
    assert (status, err) == (0, "")
    assert out == (
        "model.a.weight: mean 2, std 0, min 2, max 2\nmodel.count: mean 2, std 0, min 2, max 2\n"
        "model.a.weight  float32[2, 3]  6\nmodel.count     int64[]  1\n2 tensors, 7 values\nepoch: 2\n"
    )
    out = tool("torch_inspect_checkpoint", files / "epoch.2.pt", "--key", "model.a.weight", "--mmap")[1]
    assert out == "model.a.weight: mean 2, std 0, min 2, max 2\n[[2. 2. 2.]\n [2. 2. 2.]]\n"
    assert "[[2. 2. 2.]\n" in tool("torch_inspect_checkpoint", files / "epoch.2.pt", "--all_tensors")[1]
    assert tool("torch_inspect_checkpoint", files / "epoch.2.pt", "--key", "model.a.weigh")[2].endswith(
        "there is no tensor 'model.a.weigh'.\n  Did you mean 'model.a.weight'?\n"
    )


def test_count(tool, files):
    assert tool("torch_count_params_via_checkpoint", files / "epoch.1.pt")[1] == (
        "a.weight: 6\ncount: 1\n2 tensors, 7 parameters\n"
    )
    out = tool("torch_count_params_via_checkpoint", files / "epoch.1.pt", "--ignore-prefix", "cou")[1]
    assert out.endswith("1 tensor, 6 parameters\n")


@pytest.mark.parametrize("postfix", [".pt", ""])
def test_average(tool, files, postfix):
    out = files / "mean.pt"
    options = ["--prefix", files / "epoch.", "--postfix", postfix, "--output_path", out]
    assert tool("torch_avg_checkpoints", "--checkpoints", "1,2", *options)[0] == 0
    content = torch.load(out, weights_only=True)
    assert content["epoch"] == 2
    assert content["model"]["count"] == 2
    torch.testing.assert_close(content["model"]["a.weight"], torch.full((2, 3), 1.5))


def test_wrong_files(tool, files):
    torch.save({"a.weight": torch.zeros(2, 4)}, files / "other.pt")
    out = ["--output_path", files / "mean.pt"]
    assert tool("torch_avg_checkpoints", "--checkpoints", files / "other.pt", files / "epoch.1.pt", *out)[2] == (
        f"error: checkpoints '{files / 'epoch.1.pt'}' and '{files / 'other.pt'}' are of different models.\n"
        "  'a.weight' has the shape (2, 3) in the first; in the second, it has the shape (2, 4).\n"
    )
    assert not (files / "mean.pt").exists()
    (files / "x.pt").write_bytes(b"x")
    assert tool("torch_inspect_checkpoint", files / "x.pt")[2].startswith(
        f"error: checkpoint '{files / 'x.pt'}': cannot be read: "
    )
    assert tool("torch_inspect_checkpoint", files / "y.pt")[2] == (
        f"error: checkpoint '{files / 'y.pt'}' does not exist.\n  Did you mean '{files / 'x.pt'}'?\n"
    )
