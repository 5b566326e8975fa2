"""What is kept is bounded by what it weighs; what was asked for last stays."""

from workloads.cache import Weighed


def test_the_oldest_go_and_the_last_stays() -> None:
    made: list[str] = []
    kept = Weighed[str](10, len)

    def get(text: str) -> str:
        def make() -> str:
            made.append(text)
            return text

        return kept.get(text, make)

    for text in ("aaaa", "bbbb", "aaaa", "cccc"):
        assert get(text) == text
    assert made == ["aaaa", "bbbb", "cccc"]
    assert get("aaaa") == "aaaa"  # asked for after bbbb, which went
    assert get("bbbb") == "bbbb"
    assert made == ["aaaa", "bbbb", "cccc", "bbbb"]
    assert get("d" * 99) == "d" * 99
    assert len(kept) == 1
    get("d" * 99)
    assert made[4:] == ["d" * 99]
