import type { Endpoint, Problem, Report } from '../../operator/standalone/report.ts'
import { alignColumns } from '../command.ts'

const formatName = ({ namespace, name }: { readonly namespace: string; readonly name: string }) =>
  namespace === '' ? name : `${namespace}/${name}`

const row = ({ kind, url, admin, ...id }: Endpoint) => [kind, formatName(id), url, `${admin}/status`]

function connectLines({ kind, name, url, registries }: Endpoint): string[] {
  if (kind === 'MCPRegistry') return registries.map((registry) => `curl ${url}/registry/${registry}/v0.1/servers`)
  return [
    `claude mcp add --transport http ${name} ${url}`,
    `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`,
  ]
}

/** Returns the endpoints for clients: gateways and registries; single servers if there is no gateway. */
function listClientEndpoints(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const hasGateway = endpoints.some(({ kind }) => kind === 'VirtualMCPServer')
  return endpoints.filter(({ kind }) => kind === 'VirtualMCPServer' || kind === 'MCPRegistry' || !hasGateway)
}

/** Returns the table of endpoints and how to connect to them. `consoleUrl` lets one browser into the console. */
export function overviewText({ endpoints, starting }: Report, paths: readonly string[], consoleUrl?: string): string {
  const watched = `Editing ${paths.join(', ')} changes what is served; Ctrl-C stops all.`
  const later =
    starting.length === 0
      ? []
      : [`Still starting: ${starting.map((one) => `${one.kind} ${formatName(one)}`).join(', ')}`, '']
  const consoleRow = consoleUrl === undefined ? [] : [['Console', 'default/console', consoleUrl, '']]
  if (endpoints.length === 0) {
    const consoleLine = consoleUrl === undefined ? [] : [`Console: ${consoleUrl}`]
    return [...later, ...consoleLine, `Nothing is served yet. ${watched}`, ''].join('\n')
  }
  const lines = listClientEndpoints(endpoints).flatMap(connectLines)
  const pages = listClientEndpoints(endpoints).map(({ url }) => new URL('/', url).href)
  return [
    '',
    ...alignColumns([['KIND', 'NAME', 'URL', 'STATUS'], ...consoleRow, ...endpoints.map(row)]),
    '',
    'Connect a client:',
    ...lines.map((line) => `  ${line}`),
    '',
    `In a browser: ${pages.join(' and ')}`,
    '',
    ...later,
    watched,
    '',
  ].join('\n')
}

const formatSubject = (problem: Problem) => (problem.kind === 'File' ? '' : `${problem.kind} ${formatName(problem)}: `)

const formatProblem = (problem: Problem): string =>
  `${problem.severity}: ${formatSubject(problem)}${problem.message} (${problem.reason})`

const texts = (report: Report | undefined) => new Set(report?.problems.map(formatProblem))

/** Returns the changes since the last report: one line for each change, one for each new address. */
export function changeText(report: Report, before: Report, changes: readonly string[]): string[] {
  const known = new Set(before.endpoints.map(({ url }) => url))
  const added = report.endpoints.filter(({ url }) => !known.has(url))
  const solved = [...texts(before)].filter((text) => !texts(report).has(text))
  return [
    ...(changes.length > 0 ? [`changed: ${changes.join('; ')}`] : []),
    ...added.map((endpoint) => `serving: ${endpoint.kind} ${formatName(endpoint)} on ${endpoint.url}`),
    ...solved.map((text) => `solved: ${text}`),
  ]
}

export const newProblems = (report: Report, before: Report | undefined): string[] =>
  [...texts(report)].filter((text) => !texts(before).has(text))
