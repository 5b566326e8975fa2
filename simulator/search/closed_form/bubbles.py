"""What n micro-batches take through p places, each with v stages, by the schedule.

Stage s takes f_s forward and b_s backward, a = f + b, of which w for gradients of weights, and
sends to the next one in c_s. S_s is the sum of a_j + 2 c_j from stage s on: the way to the end
and back.

    1F1B          the largest S_0 - S_s + n a_s + (S_s - a_s - k f_s)+ + (S_s - a_s - k b_s)+,
                  k = p - s - 1: stage s waits at the start and at the end of its n micro-batches
                  for the way to the end and back, but for the k passes that it has meanwhile.
                  With n <= p - s all forward passes come first, and it waits once.
                  Or S_0 + (n - 1) g, where g = S_s / (p - s) is above all a: stage s has at most
                  p - s micro-batches in flight, and sends are long
    interleaved   n A + F,  A = the most that a place takes for a micro-batch,
                  F = the first p of the v p stages with their sends, without the slowest one
    GPipe         S_0 + (n - 1) (largest f + largest b of a place)
    zero bubble   as 1F1B, but stage s has gradients of weights s micro-batches late: it waits at
                  the end for k passes of a_s - f_s, and behind its last error, which goes back
                  through stage j < s, each stage has min(j + 1, n) gradients w_j to do

No cycle of a stage is shorter than the sums of its gradients, where each micro-batch has some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds of a micro-batch in each stage, the first stage first.

    ``sent_s`` are on its way to the next stage, ``summed_s`` are sums of its gradients.
    """

    forward_s: Sequence[float]
    backward_s: Sequence[float]
    gradient_s: Sequence[float]
    sent_s: Sequence[float]
    summed_s: Sequence[float]

    def passed_s(self, schedule: str, places: int, micro_batches: int) -> float:
        """All micro-batches through all stages."""
        n = micro_batches
        if schedule == "gpipe":
            of = (self.forward_s, self.backward_s, self.summed_s)
            forward_s, backward_s, summed_s = (self._of_places(each, places) for each in of)
            return self._whole_s + (n - 1) * (max(forward_s) + max(*backward_s, *summed_s))
        if schedule == "interleaved":
            return self._interleaved_s(places, n)
        return self._one_forward_one_backward_s(schedule, n)

    def early_s(self, schedule: str, micro_batches: int) -> list[float]:
        """How long before the end of all passes each stage is through with its own.

        Errors go back from the last stage to the first. Stage s has gradients of weights of s + 1
        micro-batches left behind the last of them, where these come late.
        """
        errors_s, late_s = self._backward(schedule)
        way_s = [0.0, *accumulate(map(sum, zip(errors_s, self.sent_s, strict=True)))]
        left_s = [min(s + 1, micro_batches) * w for s, w in enumerate(late_s)]
        ends_s = [left - way for left, way in zip(left_s, way_s, strict=False)]
        return [max(ends_s) - one for one in ends_s]

    def _backward(self, schedule: str) -> tuple[Sequence[float], Sequence[float]]:
        """Errors, which the stage before waits for, and gradients of weights that come later."""
        if schedule != "zero-bubble":
            return self.backward_s, [0.0] * len(self.backward_s)
        both = zip(self.backward_s, self.gradient_s, strict=True)
        return [b - w for b, w in both], self.gradient_s

    @property
    def _both_s(self) -> list[float]:
        return [f + b for f, b in zip(self.forward_s, self.backward_s, strict=True)]

    @property
    def _whole_s(self) -> float:
        """A micro-batch's way through all stages and back."""
        return sum(self._both_s) + 2 * sum(self.sent_s)

    @staticmethod
    def _of_places(each_s: Sequence[float], p: int) -> list[float]:
        """The sum over the stages at each of p places."""
        return [sum(each_s[place::p]) for place in range(p)]

    def _interleaved_s(self, p: int, n: int) -> float:
        both_s, v = self._both_s, len(self.forward_s) // p
        places_s = [one for each in (both_s, self.summed_s) for one in self._of_places(each, p)]
        fill_s = sum(both_s[:p]) - max(both_s[:p]) + 2 * sum(self.sent_s[:p])
        in_flight = (2 * (p - 1) + (v - 1) * p + 1) / v
        cycle_s = max(*places_s, self._whole_s / in_flight if in_flight < n else 0.0)
        return n * cycle_s + fill_s

    def _one_forward_one_backward_s(self, schedule: str, n: int) -> float:
        """The slowest stage decides: the way to it, its work, its waits, and what is left then."""
        p, (errors_s, late_s) = len(self.forward_s), self._backward(schedule)
        whole_s = sum(self.forward_s) + sum(errors_s) + 2 * sum(self.sent_s)
        longest_s, behind_s, flight_s = whole_s, whole_s, 0.0
        before_s = back_s = left_s = 0.0
        every = zip(self.forward_s, errors_s, late_s, self.sent_s, self.summed_s, strict=True)
        for s, (f, b, w, sent, summed) in enumerate(every):
            late, more = min(s + 1, n), p - s - 1
            left_s = max(late * w, back_s + left_s)
            behind_s -= f + b
            own_s = f + b + w + (n - 1) * max(f + b + w, summed) - late * w
            if n > p - s:
                own_s += max(behind_s - more * f, 0.0) + max(behind_s - more * (b + w), 0.0)
                flight_s = max(flight_s, (f + b + behind_s) / (p - s))
            else:  # all forward passes come first
                own_s = max(own_s, f + b + behind_s + (n - 1) * max(f, b) + (n - late) * w)
            longest_s = max(longest_s, before_s + own_s + left_s)
            before_s, back_s, behind_s = before_s + f + sent, b + sent, behind_s - 2 * sent
        if flight_s > max(*self._both_s, *self.summed_s):
            longest_s = max(longest_s, whole_s + (n - 1) * flight_s)
        return longest_s
