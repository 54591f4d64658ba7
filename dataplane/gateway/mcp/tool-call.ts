import { Message, type Places } from './message.ts'
import { parseJson } from './parse.ts'

/** The `_meta` of a request: JSON text of an object, and its value. */
export interface Meta {
  readonly text: string
  readonly value: unknown
}

/**
 * Further members of `params`, as JSON text: the client's answers to questions, and the request to run the call as a
 * task.
 */
export type MoreParams = Readonly<Partial<Record<'requestState' | 'inputResponses' | 'task', string>>>

/** The parts of a `tools/call`. */
export interface ToolCallParts {
  /** JSON text. */
  readonly id: string
  readonly name: string
  /** JSON text of an object. */
  readonly arguments: string
  /** Undefined if it has none. */
  readonly meta: Meta | undefined
  readonly more?: MoreParams
}

/**
 * Builds a `tools/call` of the gateway itself. Its parts are valid, so it needs no parsing. Throws a SyntaxError if the
 * arguments are nested too deeply.
 */
export function toolCall({ id, name, arguments: args, meta, more = {} }: ToolCallParts): Message {
  const params: Record<string, unknown> = { name, arguments: parseJson(args) }
  const idStart = HEAD.length
  const idEnd = idStart + id.length
  const paramsStart = idEnd + METHOD.length
  const nameStart = paramsStart + NAME.length
  let text = `${HEAD}${id}${METHOD}${NAME}${JSON.stringify(name)}`
  const nameEnd = text.length
  const argumentsStart = nameEnd + ARGUMENTS.length
  const argumentsEnd = argumentsStart + args.length
  text += ARGUMENTS + args
  let metaStart = -1
  let metaEnd = -1
  if (meta !== undefined) {
    metaStart = argumentsEnd + META.length
    metaEnd = metaStart + meta.text.length
    text += META + meta.text
    params['_meta'] = meta.value
  }
  for (const [key, value] of Object.entries(more)) {
    text += `,"${key}":${value}`
    params[key] = parseJson(value)
  }
  text += '}}'
  const places: Places = {
    ...{ idStart, idEnd, paramsStart, paramsEnd: text.length - 1, nameStart, nameEnd },
    ...{ uriStart: -1, uriEnd: -1, argumentsStart, argumentsEnd, metaStart, metaEnd },
  }
  // This id only marks the value as a request.
  return new Message(text, { id, method: 'tools/call', params }, places)
}

const HEAD = '{"jsonrpc":"2.0","id":'
const METHOD = ',"method":"tools/call","params":'
const NAME = '{"name":'
const ARGUMENTS = ',"arguments":'
const META = ',"_meta":'
