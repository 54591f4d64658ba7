import { isObject } from '../../crds/settings/json.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import {
  listHints,
  plain,
  type ResultFacts,
  readResult,
  type ToolRow,
  type ToolsFacts,
  type TryFacts,
} from '../facts/tools.ts'
import { callMcp, type Listed, listTools, type Target, type Tool } from '../mcp/client.ts'
import { type Field, INPUT, readAnswers, readArguments, readFields } from '../mcp/form-values.ts'
import { claimsText } from '../mcp/tokens.ts'
import { toolsPage, tryPage } from '../pages/tools.ts'
import { buildPath, formatKey, identify } from '../places/object-id.ts'
import { buildHead, requirePart } from './pages.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'
import { beginLogin, keepToken } from './workload-logins.ts'

/**
 * Returns the workload and the target of calls to it. The address comes from `places`, never from the object itself.
 */
function requireTarget(visit: Visit) {
  const object = requirePart(visit, 'tools')
  const { places, session, tokens } = visit
  const base = places.address(session.viewer, object)
  const token = tokens.get(session.id, formatKey(identify(object)))
  return { object, token, target: base === undefined ? undefined : { url: `${base}/mcp`, token } }
}

/** Says why a workload has no address. */
const NOT_CALLED = {
  cluster: 'the console can’t reach it from here; in a cluster it can',
  machine: 'it does not run',
} as const

const list = async ({ places }: Visit, target: Target | undefined): Promise<Listed> =>
  target === undefined ? { failed: NOT_CALLED[places.kind] } : listTools(target)

/** Returns the names of the tools that the viewer sees; undefined if they can't be listed. */
export async function toolNames(visit: Visit): Promise<readonly string[] | undefined> {
  const listed = await list(visit, requireTarget(visit).target)
  return 'tools' in listed ? listed.tools.map(({ name }) => name) : undefined
}

const toRow = ({ name, title, description, annotations }: Tool, href: string): ToolRow => ({
  name,
  title,
  description,
  hints: listHints(annotations),
  href: `${href}/tools/${encodeURIComponent(name)}`,
})

async function toolsFacts(visit: Visit, listed: Listed): Promise<ToolsFacts> {
  const { object, token } = requireTarget(visit)
  const head = await buildHead(visit, object)
  const refused = 'refused' in listed ? listed.refused : undefined
  return {
    ...head,
    tools: 'tools' in listed ? listed.tools.map((tool) => toRow(tool, head.href)) : [],
    missing:
      'failed' in listed
        ? listed.failed
        : refused
          ? `HTTP ${refused.status}: ${refused.challenge ?? refused.text.slice(0, 300)}`
          : null,
    needsToken: refused?.status === 401 || refused?.status === 403,
    hasToken: token !== undefined,
  }
}

/** The most characters of input that are kept during a login. */
const MOST_TYPED = 16_384

/** Returns the input in the form of a tool. */
const readTyped = (form: URLSearchParams): Readonly<Record<string, string>> =>
  Object.fromEntries([...form].filter(([name]) => name === 'raw' || name.startsWith(INPUT)))

/** Returns the input in the form of a tool, or nothing if it is too large to keep. */
function chooseInputToKeep(form: URLSearchParams): Readonly<Record<string, string>> {
  const typed = readTyped(form)
  const size = Object.entries(typed).reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  return size > MOST_TYPED ? {} : typed
}

/** Shows the tools of a workload. A POST begins a login for it, or stores or deletes the viewer's token for it. */
export const tools: Page = async (visit) => {
  const { form } = visit
  const { object } = requireTarget(visit)
  if (form?.has('login') === true) {
    const tool = form.get('tool') ?? ''
    const back = `${buildPath(identify(object))}/tools${tool === '' ? '' : `/${encodeURIComponent(tool)}`}`
    return beginLogin(visit, { object, back, values: chooseInputToKeep(form) })
  }
  if (form !== undefined) keepToken(visit, object, form)
  const asked = list(visit, requireTarget(visit).target)
  const listed = await waitBriefly(asked, visit.isPage && form === undefined)
  const facts = await toolsFacts(visit, listed ?? { failed: 'still asking' })
  return {
    title: `${facts.name}: tools`,
    facts,
    content: toolsPage(facts, visit.formToken(`${facts.href}/tools`)),
    isLive: form === undefined,
  }
}

/** The most progress lines in the result, and the most characters of one line. */
const MOST_PROGRESS = 50
const LONGEST_PROGRESS = 300

function progressLine({ progress, total, message }: Readonly<Record<string, unknown>>): string {
  const line = [
    plain(progress),
    total === undefined ? '' : ` of ${plain(total)}`,
    message === undefined ? '' : ` ${plain(message)}`,
  ]
  return line.join('').slice(0, LONGEST_PROGRESS)
}

async function run(
  target: Target,
  name: string,
  params: Readonly<Record<string, unknown>>,
  { signal, onProgress }: Pick<Visit, 'signal' | 'onProgress'>,
): Promise<ResultFacts> {
  const progress: string[] = []
  const answer = await callMcp(
    target,
    'tools/call',
    { name, ...params },
    {
      signal,
      timeoutMs: 120_000,
      onNotification(message) {
        if (message['method'] !== 'notifications/progress') return
        const line = progressLine(isObject(message['params']) ? message['params'] : {})
        if (progress.length < MOST_PROGRESS) progress.push(line)
        onProgress(line)
      },
    },
  )
  return readResult(answer, progress, readFields)
}

const isDestructive = ({ annotations }: Tool): boolean =>
  annotations['destructiveHint'] === true && annotations['readOnlyHint'] !== true

interface Outcome {
  readonly problem: string | null
  readonly result: ResultFacts | null
  /** The arguments of the call; undefined if there was no call. */
  readonly given?: Readonly<Record<string, unknown>>
}

async function callTool(visit: Visit, target: Target, tool: Tool, fields: readonly Field[]): Promise<Outcome> {
  const { form } = visit
  if (form === undefined) return { problem: null, result: null }
  const given = readArguments(form, fields)
  if (typeof given === 'string') return { problem: given, result: null }
  if (isDestructive(tool) && form.get('confirmed') !== 'yes')
    return { problem: 'Confirm that it may destroy something.', result: null }
  const inputResponses = readAnswers(form)
  if (typeof inputResponses === 'string') return { problem: inputResponses, result: null }
  const params = { arguments: given, inputResponses, requestState: form.get('state') || undefined }
  try {
    return { problem: null, given, result: await run(target, tool.name, params, visit) }
  } catch (error) {
    return { problem: `The call failed, and was not repeated: ${(error as Error).message}`, result: null }
  }
}

/** Returns, and deletes, the input that was entered on this page before a login. */
function takeTyped({ typed, session }: Visit, path: string): Readonly<Record<string, string>> {
  const before = typed.get(session.id)
  if (before?.path !== path) return {}
  typed.delete(session.id)
  return before.values
}

/** Shows the page that calls a tool as the viewer. */
export const tryTool: Page = async (visit) => {
  const { form, param } = visit
  const { target } = requireTarget(visit)
  const name = param('tool')
  const listed = await list(visit, target)
  const facts = await toolsFacts(visit, listed)
  const tool = 'tools' in listed ? listed.tools.find((one) => one.name === name) : undefined
  if (tool === undefined || target === undefined) {
    if (facts.missing === null)
      throw new PublicError('not_found', { message: 'There is no tool of this name that you see.' })
    return {
      title: `${facts.name}: tools`,
      facts,
      content: toolsPage(facts, visit.formToken(`${facts.href}/tools`), {
        tool: name,
        values: form === undefined ? {} : readTyped(form),
      }),
      isLive: false,
    }
  }
  const fields = readFields(tool.inputSchema)
  const { problem, result, given } = await callTool(visit, target, tool, fields)
  // The list was readable but the call was refused: the token has expired in between, or lacks a right.
  const needsToken = facts.needsToken || result?.status === 401
  const row = toRow(tool, facts.href)
  const typed = form === undefined ? takeTyped(visit, row.href) : readTyped(form)
  const values = Object.fromEntries(fields.map(({ name: field }) => [field, typed[`${INPUT}${field}`] ?? '']))
  const all: TryFacts = {
    ...facts,
    needsToken,
    tools: [],
    tool: row,
    schema: JSON.stringify(tool.inputSchema ?? {}, null, 2).slice(0, 20_000),
    fields,
    values,
    raw: typed['raw'] ?? '',
    problem,
    asksAgain: isDestructive(tool),
    result,
    why: result?.status === 403 ? { arguments: JSON.stringify(given), claims: claimsText(target.token) } : null,
  }
  const content = tryPage(all, {
    call: visit.formToken(row.href),
    token: visit.formToken(`${facts.href}/tools`),
    access: visit.formToken(`${facts.href}/access`),
  })
  return { title: tool.name, facts: all, content, isLive: false }
}
