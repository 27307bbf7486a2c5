"""Each check in `scripts/checks` but `crates.py` fails where its rule is broken, and only there."""

import places
import pytest
import rust_arrows
import rust_nouns
import sizes
import subjects
import width
import words

ROOMS = [{"low"}, {"high"}]


@pytest.fixture
def crate(tmp_path):
    """Writes the files of a crate; returns its source folder."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / "rust/some/src" / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "rust/some/src"

    return write


def test_an_arrow_from_a_later_module_to_an_earlier_one_passes(crate):
    source = crate(
        lib="mod high;\nmod low;\n",
        low="pub struct Low;\n",
        high="use crate::low::Low;\npub struct High(Low);\n",
    )
    assert rust_arrows.problems(source, ROOMS) == []


@pytest.mark.parametrize(
    "low",
    [
        "use crate::high::High;\npub struct Low(High);\n",
        "pub fn low(high: &crate::high::High) {}\n",
        "pub fn low() { assert!(crate::high::is_high()); }\n",
        "use crate::High;\npub struct Low(High);\n",
    ],
    ids=["use", "path", "macro", "re-export"],
)
def test_an_arrow_upward_fails(crate, low):
    high = "pub struct High;\npub fn is_high() -> bool { true }\n"
    source = crate(lib="mod high;\nmod low;\npub use high::High;\n", low=low, high=high)
    (found,) = rust_arrows.problems(source, ROOMS)
    assert "low is below high" in found


def test_an_arrow_of_a_test_does_not_count(crate):
    low = "#[cfg(test)]\nmod tests {\n    use crate::high::High;\n}\n"
    source = crate(lib="mod high;\nmod low;\n", low=low, high="pub struct High;\n")
    assert rust_arrows.problems(source, ROOMS) == []


def test_a_module_without_a_place_in_the_order_fails(crate):
    source = crate(lib="mod attic;\n", attic="pub struct Chest;\n")
    (found,) = rust_arrows.problems(source, ROOMS)
    assert "attic has no place" in found


def test_a_circle_between_a_module_and_its_child_fails(crate):
    source = crate(
        lib="mod low;\n",
        low__mod="mod child;\nuse child::Child;\npub struct Low(Child);\n",
        low__child="use super::Low;\npub struct Child(Box<Low>);\n",
    )
    (found,) = rust_arrows.problems(source, ROOMS)
    assert found.startswith("circle: ")


def test_a_re_export_makes_no_circle(crate):
    source = crate(
        lib="mod low;\n",
        low__mod="mod first;\nmod second;\npub use first::First;\n",
        low__first="pub struct First;\n",
        low__second="use super::First;\npub struct Second(First);\n",
    )
    assert rust_arrows.problems(source, ROOMS) == []


def test_two_public_types_of_one_name_fail(crate):
    source = crate(
        lib="mod low;\nmod high;\n", low="pub struct Spec;\n", high="pub(crate) enum Spec {}\n"
    )
    (found,) = rust_nouns.problems(source)
    assert found.startswith("Spec is the name of 2 types")


def test_a_type_of_a_test_may_share_a_name(crate):
    tests = "#[cfg(test)]\nmod tests {\n    pub struct Spec;\n}\n"
    source = crate(lib="mod low;\n", low="pub struct Spec;\n" + tests)
    assert rust_nouns.problems(source) == []


def test_a_long_file_a_full_folder_and_a_wide_struct_fail(crate, tmp_path):
    fields = "".join(f"    field{n}: u8,\n" for n in range(11))
    crate(lib="mod wide;\n" + "//\n" * 400, wide=f"struct Wide {{\n{fields}}}\n")
    files = ["rust/some/src/lib.rs", *(f"python/{n}.py" for n in range(13))]
    assert sizes.problems(tmp_path, files, set()) == [
        "python: 13 source files, at most 12",
        "rust/some/src/lib.rs: 401 lines, at most 400",
        "rust/some/src/wide.rs::Wide: 11 fields, at most 10",
    ]
    allowed = {"python", "rust/some/src/lib.rs", "rust/some/src/wide.rs::Wide"}
    assert sizes.problems(tmp_path, files, allowed) == []


def test_an_exception_that_nothing_needs_fails(tmp_path):
    (found,) = sizes.problems(tmp_path, [], {"rust/gone.rs"})
    assert "needs no exception" in found


def test_exceptions_are_rows_of_their_own_table():
    page = (
        "| `a` | no |\n\n## Exceptions\n\n| what | why |\n| --- | --- |\n| `b.rs` | so |\n\n## X\n"
    )
    assert sizes.exceptions(page) == {"b.rs"}


def test_a_line_of_101_columns_fails():
    assert width.problems("a.rs", "é" * 100 + "\n") == []
    assert width.problems("a.rs", "ok\n" + "é" * 101 + "\n") == ["a.rs:2: 101 columns"]


def test_a_subject_of_73_characters_fails():
    assert subjects.problems(["x" * 72]) == []
    assert subjects.problems(["x" * 73]) == [f"73 characters: {'x' * 73}"]


@pytest.mark.parametrize("name", ["Shelf", "row_tally", "is_torn", "HearAll"])
def test_a_replaced_word_in_a_name_fails(name):
    assert words.in_identifiers("a.py", {name: 1}) != []
    assert words.in_name(f"rust/{name}.rs") != []
    assert words.in_headings("a.md", f"# The {name}\n") != []


def test_words_that_only_contain_a_replaced_one_pass():
    assert words.in_identifiers("a.py", {"aggregate": 1, "investigates": 2, "shear": 3}) == []


@pytest.mark.parametrize("word", ["whoever", "Nobody", "somebody", "lest", "whatever it is"])
def test_a_forbidden_word_in_prose_fails(word):
    assert len(words.in_prose("a.md", f"A sentence.\nThis is for {word} to read.\n")) == 1


def test_identifiers_are_read_from_code_only():
    assert words.python_identifiers('x = "shelf"  # gate\n') == {"x": 1}


@pytest.mark.parametrize("text", ["see `gone.rs`", "see `src/late.rs`", "[page](docs/gone.md)"])
def test_a_file_that_is_not_there_fails(text):
    assert len(places.problems("a.md", text, {"rust/core/late.rs", "docs/page.md"})) == 1


@pytest.mark.parametrize("text", ["see `late.rs`", "`core/late.rs`", "[page](../docs/page.md#top)"])
def test_a_file_is_found_by_the_end_of_its_path(text):
    assert places.problems("a.md", text, {"rust/core/late.rs", "docs/page.md"}) == []
