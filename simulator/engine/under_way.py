"""A worker's exchanges that are under way while it goes on."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.engine.chains import Chain
from simulator.engine.links import Links
from simulator.engine.meeting import Meeting
from simulator.engine.operations import Operation


class UnderWay:
    """Exchanges of one worker that may not be over.

    ``lasting`` says how long some take on links of the worker's own (``own_links``), where
    no other one is on these meanwhile.
    """

    def __init__(self, links: Links, lasting: Mapping[Operation, int]) -> None:
        self._links = links
        self._lasting = lasting
        self._crossed: dict[Operation, frozenset[int]] = {}
        self._alone: dict[Meeting, bool] = {}
        """Those under way, and whether each has had its links for itself up to now."""

    def add(self, meeting: Meeting) -> None:
        """Another one."""
        self._forget()
        mine = self._links_of(meeting.operation)
        others = [one for one in self._alone if not mine.isdisjoint(self._links_of(one.operation))]
        self._alone.update(dict.fromkeys(others, False))
        self._alone[meeting] = not others

    def disturbs(self, chain: Chain, now_ps: int) -> bool:
        """Whether one may be on a link of a chain's exchanges when these begin."""
        if not chain.exchanges:
            return False
        self._forget()
        return any(
            not self._over_by(meeting, now_ps + chain.exchanging_ps)
            and any(
                not self._links_of(meeting.operation).isdisjoint(self._links_of(one))
                for one in chain.exchanges
            )
            for meeting in self._alone
        )

    def _over_by(self, meeting: Meeting, time_ps: int) -> bool:
        """Whether it is known to end by then."""
        takes_ps = self._lasting.get(meeting.operation)
        known = takes_ps is not None and not meeting.missing and self._alone[meeting]
        return known and meeting.start_ps + (takes_ps or 0) <= time_ps

    def _forget(self) -> None:
        over = [one for one in self._alone if one.callbacks is None]
        for one in over:
            del self._alone[one]

    def _links_of(self, operation: Operation) -> frozenset[int]:
        if operation not in self._crossed:
            loads = [self._links.carry(job).load for job in operation.jobs]
            self._crossed[operation] = frozenset(n for one in loads for n in one.links.tolist())
        return self._crossed[operation]
