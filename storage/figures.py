"""Which figures of the kinds beside the pairs are worth a place in a table or a line; the records have all of them."""

SHOWN: dict[str, tuple[str, ...]] = {
    "parity": ("parity_requests", "parity_requests_different", "parity_tokens"),
    "reference": ("reference_requests", "reference_requests_different", "reference_error", "reference_float32_error"),
    "occupancy": ("peak_running", "peak_waiting", "mean_rows_per_decode_step", "slot_fill_fraction"),
    "idle": ("idle_cpu_s", "idle_window_s", "idle_cpu_fraction", "idle_context_switches_per_s"),
    "build_order": ("worst_position_ratio",),
    "steady_state": ("offered_per_s", "goodput_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "itl_p99_s"),
    "machine": ("read_bandwidth_bytes_per_s",),
}
