"""The looks that find a payload by its form: files in blocks, pictures in text, files in a user's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.files.blocks import file_blocks
from lossless.files.document import spots, text_block
from lossless.files.draft import Cut
from lossless.files.images import attached_names, carried, inline_images
from lossless.files.kinds import IMAGE_EXTENSIONS, extension, plain_type
from lossless.files.recipe import FromFile, Hole, Step, with_value
from lossless.files.references import file_reference, image_label, image_reference
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.files.document import Spot
    from lossless.files.draft import Draft, Payload
    from lossless.files.images import Carried, Inline


def native_files_leave(draft: Draft) -> None:
    """Every picture that a block carries leaves; other files do from the threshold on."""
    found = list(spots(draft.document, draft.message.role))
    blocks = [spot for spot in found if spot.is_file]
    if not blocks:
        return
    names = iter(attached_names(spot.value for spot in found if not spot.is_file))
    for spot in blocks:
        file = carried(spot.value)
        if file is None:
            continue
        if file.is_image and file.data is not None:
            name = next(names, None) or file.name or _image_name(draft, spot, file.mime)
            payload = draft.keep(file.data, name, file.mime or "", "native_image")
            label = image_label(draft.message.role, in_result=spot.in_result, inline=False)
            _replace_block(draft, spot, file, payload, _image_text(payload, label))
        elif estimate_tokens(file.text) >= draft.threshold:
            payload = _kept_file(draft, spot, file)
            reference = file_reference(payload.file_id, payload.name, payload.mime, len(payload.data), payload.summary)
            _replace_block(draft, spot, file, payload, reference)


def _kept_file(draft: Draft, spot: Spot, file: Carried) -> Payload:
    mime = file.mime or "application/octet-stream"
    name = file.name or f"{_sender(draft, spot)}-file.{extension(None, mime)}"
    if file.data is None:
        return draft.keep_text(file.text, name, mime, "large_file_block")
    return draft.keep(file.data, name, mime, "large_file_block")


def _replace_block(draft: Draft, spot: Spot, file: Carried, payload: Payload, reference: str) -> None:
    spelled = (FromFile(payload.file_id),) if file.data is None else draft.base64_pieces(file.text, payload)
    pieces = (file.prefix, *spelled) if file.prefix else spelled
    frame = with_value(spot.value, file.hole, "")
    step = Step(spot.path, (Hole(file.hole, pieces),), frame)
    draft.put(spot.path, text_block(reference, draft.format, draft.message.role), step)


def pasted_images_leave(draft: Draft) -> None:
    """Pictures that stand as base64 in a text leave it."""
    names = None
    found = [spot for spot in spots(draft.document, draft.message.role) if not spot.is_file]
    for spot in found:
        images = inline_images(spot.value)
        if not images:
            continue
        if names is None:
            names = iter(attached_names(spot.value for spot in found))
        cuts = [_image_cut(draft, spot, image, next(names, None)) for image in images]
        draft.put_cuts(spot.path, spot.value, cuts)


def _image_cut(draft: Draft, spot: Spot, image: Inline, name: str | None) -> Cut:
    payload = draft.keep(image.data, name or _image_name(draft, spot, image.mime), image.mime, "native_image")
    label = image_label(draft.message.role, in_result=spot.in_result, inline=True)
    spelled = draft.base64_pieces(image.text, payload)
    pieces = (image.prefix, *spelled) if image.prefix else spelled
    return Cut(image.start, image.end, _image_text(payload, label), pieces)


def file_blocks_leave(draft: Draft) -> None:
    """`<file>` blocks of a user from the threshold on leave the text around them."""
    if draft.message.role != "user":
        return
    for spot in list(spots(draft.document, "user")):
        if spot.is_file or spot.in_result or draft.tokens_left(spot.path, spot.value) < draft.threshold:
            continue
        cuts = []
        for block in file_blocks(spot.value):
            if estimate_tokens(block.text) < draft.threshold:
                continue
            name, mime = block.name or "unnamed", block.mime or "text/plain"
            payload = draft.keep_text(block.text, name, mime, "large_file_block")
            reference = file_reference(payload.file_id, block.name, block.mime, len(payload.data), payload.summary)
            tags = spot.value[block.start : block.begin], spot.value[block.stop : block.end]
            cuts.append(Cut(block.start, block.end, reference, (tags[0], FromFile(payload.file_id), tags[1])))
        if cuts:
            draft.put_cuts(spot.path, spot.value, cuts)


def _image_text(payload: Payload, label: str) -> str:
    return image_reference(payload.file_id, label, payload.name, payload.mime, len(payload.data))


def _image_name(draft: Draft, spot: Spot, mime: str | None) -> str:
    return f"{_sender(draft, spot)}-image.{IMAGE_EXTENSIONS.get(plain_type(mime), 'img')}"


def _sender(draft: Draft, spot: Spot) -> str:
    return "tool" if spot.in_result else draft.message.role
