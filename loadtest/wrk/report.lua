-- What the other scripts print at the end: percentiles, and who answered.
--
-- wrk measures all responses alike, sheds too, and a shed takes a few milliseconds: the percentiles are over the answered requests
-- only when nothing was shed. (`bloc-lab run` tells them apart.) What a client cannot see, the reasons of sheds and the attempts, run.sh
-- takes from the sidecars' metrics.

local report = {}
local threads = {}

function report.setup(thread)
  table.insert(threads, thread)
end

-- Called in the threads; done() reads these globals from there.
answered, shed, other = 0, 0, 0
function report.response(status, headers)
  local app = false
  for name in pairs(headers) do
    app = app or name:lower() == "x-app"
  end
  if app and status < 300 then
    answered = answered + 1
  elseif status == 429 and not app then
    shed = shed + 1
  else
    other = other + 1
  end
end

function report.done(summary, latency)
  local sums = { answered = 0, shed = 0, other = 0 }
  for _, thread in ipairs(threads) do
    for name in pairs(sums) do
      sums[name] = sums[name] + thread:get(name)
    end
  end
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  local note = sums.shed > 0 and "  of all responses, sheds included" or ""
  print("")
  for _, percentile in ipairs({ 10, 50, 90, 99 }) do
    print(("p%-8d %10.1f ms%s"):format(percentile, latency:percentile(percentile) / 1000, note))
  end
  print(("answered  %10d  %.1f/s"):format(sums.answered, sums.answered * 1e6 / summary.duration))
  print(("shed      %10d"):format(sums.shed))
  print(("errors    %10d  %d of them without an answer"):format(sums.other + broken, broken))
end

return report
