"""How a language model generates tokens, and the loop that does it; a ``Workload`` declares the former."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import replace


class Forward(Protocol):
    """Runs one forward pass under a setting, on the positional arguments of the workload's ``torch.nn.Module``."""

    def __call__(self, *args: Any) -> Any: ...


class Generation(msgspec.Struct, frozen=True):
    """How a language model generates: first the whole prompt, then one token after the other.

    Each new token is the most likely one (greedy decoding). The number of tokens is fixed: an end-of-sequence token
    does not end the generation.

    Attributes:
        prompt_tokens: tokens of each prompt.
        new_tokens: tokens that are generated for each prompt.
        prefill: ``(forward, *Inputs.args)`` to the logits of the first new token, of shape (batch, vocabulary), and
            the state that ``step`` needs: usually the cache of keys and values.
        step: ``(forward, token, state)`` to the logits of the next token, and the state that goes on. ``token`` is the
            one before, of shape (batch, 1).
        reset: ``(state)``, called after the last token, outside of the timing: for a state that the next ``prefill``
            uses again. The harness keeps no state, so a new one for each generation needs no ``reset``.
        cache_bytes: ``(state)`` to the bytes of it that a step reads, at its present length; ``None`` if not known.

    Raises:
        UsageError: there is no prompt, or fewer than two new tokens, so that no time lies between two of them.
    """

    prompt_tokens: int
    new_tokens: int
    prefill: Callable[..., tuple[Any, Any]]
    step: Callable[[Forward, Any, Any], tuple[Any, Any]]
    reset: Callable[[Any], None] = lambda state: None
    cache_bytes: Callable[[Any], int | None] = lambda state: None

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.new_tokens < 2:
            raise UsageError(
                f"a generation needs a prompt and at least 2 new tokens, not {self.prompt_tokens} and "
                f"{self.new_tokens}; correct generate in workload.py"
            )


def generate(
    generation: Generation, forward: Forward, args: tuple[Any, ...], done: Callable[[], None] = lambda: None
) -> tuple[Any, ...]:
    """Generate once, and return the new tokens, each of shape (batch, 1).

    Args:
        generation: how.
        forward: one forward pass.
        args: the arguments of ``Generation.prefill``.
        done: called as soon as a token has been issued.
    """
    logits, state = generation.prefill(forward, *args)
    tokens = [logits.argmax(-1, keepdim=True)]
    done()
    while len(tokens) < generation.new_tokens:
        logits, state = generation.step(forward, tokens[-1], state)
        tokens.append(logits.argmax(-1, keepdim=True))
        done()
    generation.reset(state)
    return tuple(tokens)


def noting_cache(generation: Generation, read: list[int | None]) -> Generation:
    """``generation``, each step of which appends to ``read`` what its ``cache_bytes`` says."""

    def step(forward: Forward, token: Any, state: Any) -> tuple[Any, Any]:
        logits, state = generation.step(forward, token, state)
        read.append(generation.cache_bytes(state))
        return logits, state

    return replace(generation, step=step)
