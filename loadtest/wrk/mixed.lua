-- Requests of mixed cost: most are cheap, few are dear, as in a real application. COSTS lists `cost:weight` pairs; a cost
-- multiplies the backend's service time (header x-cost, 0 to 100). The default has mean 1: 0.5 (8 of 10), 2, 4.

package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local report = require("report")

local costs, total = {}, 0
for cost, weight in (os.getenv("COSTS") or "0.5:8,2:1,4:1"):gmatch("([%d.]+):([%d.]+)") do
  cost, weight = tonumber(cost), tonumber(weight)
  assert(cost and weight and cost <= 100, "COSTS must be cost:weight pairs, such as 0.5:8,2:1,4:1; costs are 0 to 100")
  total = total + weight
  costs[#costs + 1] = { below = total, headers = { ["x-cost"] = tostring(cost) } }
end
assert(total > 0, "COSTS must be cost:weight pairs, such as 0.5:8,2:1,4:1; costs are 0 to 100")

function init()
  math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 1000003)
end

function request()
  local at = math.random() * total
  for _, choice in ipairs(costs) do
    if at < choice.below then
      return wrk.format(nil, nil, choice.headers)
    end
  end
end

setup, response, done = report.setup, report.response, report.done
