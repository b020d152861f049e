-- How much of each rank's reserved memory is free but cannot be given back, at the dump.
SELECT job, rank, device, reserved, allocated, stranded, releasable, pool_idle, largest_free,
       round(CAST(stranded AS DOUBLE) / nullif(reserved, 0), 4) AS stranded_share
FROM devices
ORDER BY stranded DESC NULLS LAST, job, rank, device
