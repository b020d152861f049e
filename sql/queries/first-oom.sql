-- Which rank failed first: every recorded failure in order of time, by the clock of its node.
SELECT job, rank, device, time_us, event, rounded AS asked, segment_size, device_free, reserved, allocated,
       stranded, largest_free, events_after
FROM ooms
ORDER BY time_us NULLS LAST, job, rank, device, oom
