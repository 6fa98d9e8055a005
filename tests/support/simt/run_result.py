"""The findings of a checked run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The accesses of one class (global or shared, read or write) of one launch.

    requests        warp instructions
    sectors         sectors of 32 bytes of global memory that they touched
    ideal_sectors   the fewest sectors that could hold the requested bytes
    phases          steps in which shared memory serves a request: 1, 2 (8 bytes), 4 (16 bytes)
    degrees         sum over phases of the most words requested from one bank
    """

    requests: int
    sectors: int
    ideal_sectors: int
    phases: int
    degrees: int
    worst_degree: int

    @property
    def sectors_per_request(self):
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def sectors_per_ideal(self):
        """1.0 is fully coalesced; 0.0 without global accesses."""
        return self.sectors / self.ideal_sectors if self.ideal_sectors else 0.0

    @property
    def mean_degree(self):
        """1.0 is free of bank conflicts; 0.0 without shared accesses."""
        return self.degrees / self.phases if self.phases else 0.0


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run found.

    reports   texts of the findings
    buffers   bytes after the run
    traffic   of a trace: class -> Traffic
    """

    reports: tuple = ()
    buffers: tuple = ()
    traffic: dict = dataclasses.field(default_factory=dict)

    @property
    def clean(self):
        return not self.reports
