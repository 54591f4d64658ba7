import { isObject } from '../../../crds/shared/json.ts'
import type { ReadArguments } from '../../policy/index.ts'
import { foldName, Members } from '../mcp/json.ts'
import type { Message } from '../mcp/message.ts'
import { memoized } from './memoized.ts'

const NONE = {}

/**
 * The arguments of a request, for policies that read some of them. Undefined where a parser other than ours
 * may read another value than we do: a name that stands there twice, or in another spelling by case, which some parsers
 * take for the same.
 */
export function judgedArguments(message: Message, read: ReadArguments): Readonly<Record<string, unknown>> | undefined {
  const given = message.params?.['arguments']
  const { names } = read
  if (names.size === 0 || given === undefined || given === null) return NONE
  if (!isObject(given)) return undefined
  const folded = foldedNames(read)
  const seen = new Set<string>()
  const members = new Members(message.text, message.argumentsStart)
  while (members.next()) {
    const { key } = members
    if (!folded.has(foldName(key))) continue
    if (!names.has(key) || seen.has(key)) return undefined
    seen.add(key)
  }
  return given
}

const foldedNames = memoized((read: ReadArguments) => new Set([...read.names].map(foldName)))
