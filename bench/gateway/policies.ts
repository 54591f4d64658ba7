/**
 * Compares calls under Cedar policies with calls without any: 20 policies on tools and claims, whose decisions are
 * cached, and 20 that read arguments, evaluated at each call by one policy or by all 20. Goals: at least 85 % of the
 * calls with cached decisions, and at least 4,500 calls per CPU-second with evaluated ones. Usage: policies.ts [seconds
 * a start] [starts]
 */
import { runBench } from '../shipped/bench.ts'
import { measureCosts, printGoal, printRows } from '../shipped/measure.ts'
import { gatewayTarget } from '../shipped/portico.ts'

const SECONDS = Number(process.argv[2] ?? 2)
const STARTS = Number(process.argv[3] ?? 9)
const WITHOUT = 'no policies'
const ON_TOOLS = '20 on tools'
const ON_ARGUMENTS = ['20 on arguments', '20 on all tools']

const makeTwenty = (policy: (index: number) => string) => Array.from({ length: 20 }, (_, index) => policy(index))
/** A policy each for the twenty tools that are called. */
const formatName = (index: number) => `b${index % 2}_tool_${index}`
const onTools = makeTwenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource == Tool::"${formatName(index)}") unless { principal has claim_level && principal.claim_level < ${index} };`,
)
const onArguments = makeTwenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource == Tool::"${formatName(index)}") when { context has arg_message && context.arg_message like "w*" };`,
)
const onEachCall = makeTwenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource) when { context has arg_message && context.arg_message like "${index === 19 ? 'w' : `v${index}`}*" };`,
)

await runBench(async ({ shipped, directory }) => {
  const target = (name: string, policies?: readonly string[]) =>
    gatewayTarget({
      ...{ name, shipped, directory, tool: (_, count) => formatName(count % 20) },
      settings: policies === undefined ? {} : { authz: { policies } },
    })
  const targets = [
    target(WITHOUT),
    target(ON_TOOLS, onTools),
    target(ON_ARGUMENTS[0] as string, onArguments),
    target(ON_ARGUMENTS[1] as string, onEachCall),
  ]
  const extent = { eras: ['modern'], kinds: ['call'], starts: STARTS, seconds: SECONDS, warm: 20_000 } as const
  const rows = await measureCosts(targets, extent, (found) =>
    printRows(found, (name) => (name === WITHOUT ? [] : [{ name: WITHOUT, as: WITHOUT }])),
  )
  printGoal(rows, { name: ON_TOOLS, of: WITHOUT, most: 1 / 0.85 })
  for (const name of ON_ARGUMENTS) printGoal(rows, { name, most: 1e6 / 4_500 })
})
