import type { DetailedError, PolicyJson } from '@cedar-policy/cedar-wasm/nodejs'
import type { Steps } from '../../crds/settings/stepwise.ts'
import { engine } from './engine.ts'
import { type Evaluated, toEvaluated } from './evaluate.ts'
import { DEEPEST, findMentions, formatKey, type Mentions, readUid } from './expressions.ts'

export interface PolicyText {
  readonly name: string
  readonly text: string
  readonly effect: 'permit' | 'forbid'
  readonly id: string | undefined
  readonly annotations: readonly string[]
  readonly mentions: Mentions
  /** The evaluator without the engine; undefined if the policy has unsupported parts. */
  readonly evaluated: Evaluated | undefined
  /** The one action and the one resource that it applies to, as `type::id`; undefined if there may be several. */
  readonly only: { readonly action: string | undefined; readonly resource: string | undefined }
}

/** The deepest nesting of brackets. The engine's parser overflows its stack somewhat beyond a hundred. */
const DEEPEST_BRACKETS = 32

/** The most characters of one policy: the engine takes a millisecond for two thousand. */
const LONGEST_POLICY = 64 * 1024

/** Reads the policies of one text. Without any it returns a message, with line and column if the parser gives them. */
export function* readingPolicies(text: string, name: string): Steps<readonly PolicyText[] | string> {
  const { depth, pieces } = lex(text)
  if (depth > DEEPEST_BRACKETS) return `has more than ${DEEPEST_BRACKETS} brackets in one another`
  const long = pieces.find((piece) => piece.length > LONGEST_POLICY)
  if (long !== undefined) return `has more than ${LONGEST_POLICY} characters in one policy`
  const parts: string[] = []
  for (const piece of pieces) {
    const found = engine.run((cedar) => cedar.policySetTextToParts(piece))
    yield
    if (found.type === 'failure') return syntaxProblem(text) ?? found.errors.map(({ message }) => message).join('; ')
    if (found.policy_templates.length > 0)
      return 'is a template of Cedar, and templates are not supported: write a policy'
    parts.push(...found.policies)
  }
  if (parts.length === 0) return 'holds no policy'
  const policies: PolicyText[] = []
  for (const [index, part] of parts.entries()) {
    const answer = engine.run((cedar) => cedar.policyToJson(part))
    yield
    if (answer.type === 'failure') return answer.errors.map((error) => describeError(error, part)).join('; ')
    policies.push(readPolicy(part, parts.length === 1 ? name : `${name}.${index + 1}`, answer.json))
    yield
  }
  return policies
}

function syntaxProblem(text: string): string | undefined {
  const whole = engine.run((cedar) => cedar.policySetTextToParts(text))
  return whole.type === 'failure' ? whole.errors.map((error) => describeError(error, text)).join('; ') : undefined
}

function readPolicy(text: string, name: string, json: PolicyJson): PolicyText {
  const { effect, annotations = {}, action, resource } = json
  const { id, ...others } = annotations
  const only = { action: onlyOne(action), resource: onlyOne(resource) }
  const mentions = findMentions(json)
  const parts = mentions.depth > DEEPEST ? undefined : toEvaluated(json)
  return { name, text, effect, id, annotations: Object.keys(others), mentions, evaluated: parts, only }
}

/** Returns the entity of a scope that is `== entity`. */
function onlyOne(scope: object): string | undefined {
  const { op, entity } = scope as Readonly<Record<string, unknown>>
  return op === '==' && readUid(entity) !== undefined ? formatKey(entity) : undefined
}

/** Formats the parser's message with its place; the parser's offsets are in bytes. */
function describeError({ message, sourceLocations: [place] = [] }: DetailedError, text: string): string {
  const plain = message.replace(/^failed to parse polic(y|ies) from string: /, '')
  if (place === undefined) return plain
  const lines = Buffer.from(text).subarray(0, place.start).toString().split('\n')
  const column = (lines.at(-1) ?? '').length + 1
  const label = place.label ? `, ${place.label}` : ''
  return `line ${lines.length}, column ${column}: ${plain}${label}`
}

/** Tokens of the syntax. An unclosed string extends to the end of the text, so that each character is read once. */
const LEXED = /"(?:[^"\\]|\\.?)*(?:"|$)|\/\/[^\n]*|[()[\]{};]/gs

/**
 * Returns the deepest nesting of brackets outside strings and comments, and the text split after each policy: the
 * engine sorts the policies of a whole text by their numbers as text.
 */
function lex(text: string): { readonly depth: number; readonly pieces: readonly string[] } {
  let deepest = 0
  let depth = 0
  let start = 0
  const pieces: string[] = []
  for (const { 0: token, index } of text.matchAll(LEXED)) {
    if (token.length > 1) continue
    if (token === ';') {
      if (depth !== 0) continue
      pieces.push(text.slice(start, index + 1))
      start = index + 1
    } else depth += '([{'.includes(token) ? 1 : -1
    deepest = Math.max(deepest, depth)
  }
  const rest = text.slice(start)
  if (rest.trim() !== '') pieces.push(rest)
  return { depth: deepest, pieces }
}

const LONGEST_LINE = 200

/** Returns a policy's first line, without annotations on lines of their own. */
export function firstLine(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  const line = lines.find((one) => one !== '' && !one.startsWith('//') && !/^@\w+(\(".*"\))?$/.test(one)) ?? ''
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE - 1)}…` : line
}
