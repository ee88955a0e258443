-- For `bloc-lab cost`: one line of JSON at the end. With THINK_MS each connection waits before each request, exponentially distributed around that mean;
-- without it the next request follows the answer at once. No response(): it would cost wrk more than the request costs Envoy.

local mean = tonumber(os.getenv("THINK_MS") or "")

function init()
  -- Each thread has a Lua of its own; the address of a table differs between them.
  math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 1000003)
end

if mean then
  -- wrk asks before each request how many milliseconds to wait: whole ones, so rounded.
  function delay()
    return math.floor(-mean * math.log(1 - math.random()) + 0.5)
  end
end

function done(summary, latency)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  print(('{"requests": %d, "failed": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d}'):format(
    summary.requests, broken + errors.status, summary.duration, latency:percentile(50), latency:percentile(99)))
end
