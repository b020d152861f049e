-- Which rank needs most memory, the highest peak first. Without history it is what is allocated at the dump.
SELECT job, rank, device,
       coalesce(peak_allocated, allocated) AS peak_allocated,
       coalesce(peak_reserved, reserved) AS peak_reserved,
       capacity, ooms, verdict
FROM devices
ORDER BY peak_allocated DESC, job, rank, device
