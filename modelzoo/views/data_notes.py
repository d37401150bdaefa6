"""What a data set was like and how its images were read, in words. Pure."""

from __future__ import annotations

from modelzoo.formatting import for_people
from modelzoo.records.partial import LONGEST_WITH_MASKS, PictureNote
from modelzoo.records.validity import DataNoteKind, Validity

NOTES = {
    PictureNote.FIRST_FRAME: "animated: the first frame was taken",
    PictureNote.TO_8_BITS: "16-bit: scaled to 8 bits",
    PictureNote.FROM_CMYK: "CMYK: converted to RGB",
    PictureNote.LARGE: "large: decoded at reduced size",
    PictureNote.REDUCED: f"reduced to {LONGEST_WITH_MASKS} pixels, as the model does",
}
DATA_NOTES = {
    DataNoteKind.SKIPPED: "{count} left out by --skip-bad: {names}",
    DataNoteKind.UPRIGHT: "{count} pictures turned by their EXIF orientation, as the annotations' sizes are",
    DataNoteKind.UNKNOWN_ORIENTATION: "{count} pictures have an EXIF orientation that may apply to their boxes; it is "
    "not applied: {names}",
    DataNoteKind.SYNONYMS: "{count} categories known by another name: {names}",
    DataNoteKind.UNKNOWN_CATEGORIES: "{count} objects not judged, because the model does not know their categories: "
    "{names}",
    DataNoteKind.NO_MASKS: "{count} objects have no mask: only boxes are judged",
    DataNoteKind.NUMBERED_CLASSES: "directory names are class indices, from 0: {names}",
    DataNoteKind.SORTED_CLASSES: "directories in sorted order are the classes: {names}",
    DataNoteKind.LABEL_FILE: "classes by {names}",
    DataNoteKind.NO_CLASSES: "no directory is named after a class: agreement only",
    DataNoteKind.CMRC: "answers scored by the rules of CMRC 2018",
    DataNoteKind.NO_BLANKS: "{count} questions have answers in a script without blanks between words, in which F1 says "
    "little",
    DataNoteKind.NOT_IN_PASSAGE: "{count} questions have no answer that occurs in their passage: {names}",
}


def data_notes(judged: Validity) -> str:
    """Return a line for each note; empty without notes."""
    about = [
        DATA_NOTES[each.kind].format(count=each.count, names=for_people(", ".join(each.names)))
        for each in judged.data_notes
    ]
    return "\n".join([*about, *sorted(NOTES[note] for note in judged.notes)])
