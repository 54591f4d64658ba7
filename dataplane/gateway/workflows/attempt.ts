import { isObject } from '../../../crds/settings/json.ts'
import type { ElicitationStep, SimpleStep, ToolStep } from '../../config/workflow/compiled.ts'
import { findViolation } from '../../config/workflow/json-schema.ts'
import { workflowLimits } from '../../config/workflow/limits.ts'
import { PublicError } from '../../server/errors.ts'
import { Members, skipSpace } from '../mcp/json.ts'
import { evaluateValues, parseOrUndefined, type Scope, textFrom } from './evaluate.ts'
import { type Ending, type Finished, type Host, StepFailure, type UserAnswer, type Waiting } from './host.ts'

export interface Attempt {
  readonly host: Host
  readonly scope: Scope
  readonly id: string
  /** The key of the attempt among all that may wait. */
  readonly key: string
  readonly ending: Ending
  /** The state of an attempt that has waited; undefined if it begins. */
  readonly waited: { readonly state?: string; readonly since: number } | undefined
  /** The client's answers to the step's questions, by the rest of their keys; JSON texts. */
  readonly answers: ReadonlyMap<string, string>
}

/** The rest of the key for a step that asks the user itself. */
const OWN = ''

/** The longest reason for a failure that is taken from a tool, in characters. */
const LONGEST_REASON = 2_000

/** Runs one attempt of a step. Rejects with a StepFailure. */
export const attempt = (step: SimpleStep, how: Attempt): Promise<Finished | Waiting> =>
  step.type === 'tool' ? callTool(step, how) : elicit(step, how)

async function callTool(step: ToolStep, { host, scope, id, key, ending, waited, answers }: Attempt) {
  const args = JSON.stringify(evaluateValues(step.arguments, scope))
  if (args.length > workflowLimits.output) throw new StepFailure('the arguments are larger than 10 MB')
  const more = {
    ...(waited?.state === undefined ? {} : { requestState: JSON.stringify(waited.state) }),
    ...(answers.size === 0 ? {} : { inputResponses: buildObject(answers) }),
  }
  const answer = await host.call({ step: id, tool: step.tool, arguments: args, more, ending })
  if (answer.kind === 'result') return { ...readFinished(answer.text), result: answer.text }
  const requests: Record<string, string> = {}
  const asked = new Members(answer.requests, skipSpace(answer.requests, 0))
  while (asked.next()) requests[`${key}/${asked.key}`] = asked.value
  return { status: 'waiting' as const, requests, state: answer.state, since: Date.now() }
}

const buildObject = (texts: ReadonlyMap<string, string>): string =>
  `{${[...texts].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`

async function elicit(step: ElicitationStep, how: Attempt): Promise<Finished | Waiting> {
  const { host, scope, key, ending, waited, answers } = how
  if (!host.canAsk) {
    const answer = host.ask === undefined ? missingCapability({ elicitation: {} }) : undefined
    throw new StepFailure('the client can’t ask its user: it has not declared elicitation', { isFinal: true, answer })
  }
  const question = { message: textFrom(step.message, scope), requestedSchema: step.schema }
  if (host.ask !== undefined)
    return finish(step, await host.ask(question, { timeoutMs: step.timeoutMs, signal: ending.signal }))
  const answer = answers.get(OWN)
  if (answer !== undefined) return finish(step, readAnswer(answer))
  if (waited !== undefined && Date.now() > waited.since + step.timeoutMs)
    throw new StepFailure('the user did not answer in time')
  const request = JSON.stringify({ method: 'elicitation/create', params: question })
  return {
    status: 'waiting',
    requests: { [`${key}/`]: request },
    state: undefined,
    since: waited?.since ?? Date.now(),
  }
}

/** The error for a client of 2026-07-28 that has not declared the capabilities which the call needs. */
export const missingCapability = (requiredCapabilities: object): PublicError =>
  new PublicError('missing_capability', { data: { requiredCapabilities } })

const ACTIONS: ReadonlySet<unknown> = new Set(['accept', 'decline', 'cancel'])

/** Reads a client's answer to `elicitation/create` (JSON text). Throws a StepFailure if it is invalid. */
export function readAnswer(text: string): UserAnswer {
  if (text.length > workflowLimits.response) throw new StepFailure('the answer of the user is larger than 1 MB')
  const answer: unknown = JSON.parse(text)
  if (!isObject(answer) || !ACTIONS.has(answer['action']))
    throw new StepFailure('the client gave no answer of its user')
  return { action: answer['action'] as UserAnswer['action'], content: answer['content'] }
}

/** Returns the record of a step whose user has answered. */
function finish(step: ElicitationStep, { action, content }: UserAnswer): Finished {
  if (action === 'accept') {
    const given = isObject(content) ? content : {}
    const violation = findViolation(step.schema, given)
    if (violation !== undefined)
      throw new StepFailure(`the answer of the user is not as asked: ${violation.pointer || '/'} ${violation.message}`)
    return { status: 'completed', action, content: given, output: given }
  }
  const next = action === 'decline' ? step.onDecline : step.onCancel
  if (next === 'abort')
    throw new StepFailure(action === 'decline' ? 'the user has declined' : 'the user has cancelled', { isFinal: true })
  const instead = step.defaultResults
  return { status: 'completed', action, output: instead, content: instead, skipsRest: next === 'skip_remaining' }
}

/** Returns what templates see of a tool's result (JSON text). Throws a StepFailure for a failure or no result. */
function readFinished(text: string): Finished {
  const result = parseOrUndefined(text)
  if (result === undefined)
    throw new StepFailure('the tool gave a result that can’t be read: it is nested too deep, or no JSON')
  if (!isObject(result)) throw new StepFailure('the tool gave no result')
  const said = readText(result['content'])
  if (result['isError'] === true) throw new StepFailure(said.slice(0, LONGEST_REASON) || 'the tool has failed')
  const structured = result['structuredContent']
  const output = isObject(structured) ? structured : {}
  return {
    status: 'completed',
    output: Object.hasOwn(output, 'text') ? output : { ...output, text: said },
  }
}

/** Returns the texts of a result, joined by line breaks. */
function readText(content: unknown): string {
  if (!Array.isArray(content)) return ''
  let texts = ''
  let isFirst = true
  for (const part of content) {
    if (!isObject(part) || part['type'] !== 'text' || typeof part['text'] !== 'string') continue
    texts += isFirst ? part['text'] : `\n${part['text']}`
    isFirst = false
  }
  return texts
}
