"""``clearhead look`` on the models people meet first."""

import json

import pytest

from clearhead.cli import run

pytestmark = pytest.mark.real_model


@pytest.fixture(autouse=True)
def _a_quiet_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        monkeypatch.setenv(name, "error")


def test_smollm2_says_paris(smollm2_folder, capsys):
    assert run(["look", "The capital of France is", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    likeliest = seen["next_tokens"]["likeliest"][0]
    assert likeliest["text"] == " Paris"
    assert likeliest["probability"] == pytest.approx(0.773, abs=5e-4)
    assert sum(token["share"] for token in seen["strip"]["tokens"]) == pytest.approx(1, abs=1e-5)
    assert (seen["head"]["tokens"], seen["head"]["heads"]) == (5, 9)
    assert seen["head"]["dense_bytes"] == 30 * 9 * 5 * 5 * 4


def test_characters_cut_over_tokens_stay_whole(smollm2_folder, capsys):
    assert run(["look", "I ate 🍜 there", "--token", "there"]) == 0
    shown = capsys.readouterr().out
    assert "🍜[2/3]" in shown
    assert "�" not in shown


def test_a_text_beyond_the_context(smollm2_folder, capsys, tmp_path):
    file = tmp_path / "long.txt"
    file.write_text("word " * 9000, encoding="utf-8")
    assert run(["look", "--file", str(file)]) == 2
    shown, told = capsys.readouterr()
    assert shown == ""
    assert told.startswith("clearhead: error: ")
    assert told.count("\n") == 1
    assert "9,001" in told
    assert "8,192" in told


def test_an_encoder_sees_both_ways_and_predicts_nothing(minilm_folder, capsys):
    text = "Attention is a weighted mean."
    assert run(["look", text, "--model", "minilm", "--token", "weighted"]) == 0
    shown = capsys.readouterr().out
    assert "What comes next" not in shown
    assert "┊" not in shown
    assert run(["look", text, "--model", "minilm", "--token", "weighted", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert all(token["reachable"] for token in seen["strip"]["tokens"])
    assert seen["strip"]["tokens"][-1]["share"] > 0
