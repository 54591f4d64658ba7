import { Message, type Places } from './message.ts'
import { parseJson } from './parse.ts'

/** `_meta` of a request, as JSON text of an object and as value. */
export interface Meta {
  readonly text: string
  readonly value: unknown
}

/** More members of `params`, as JSON text: what a client has answered to a question, and whether a call is to be a task. */
export type MoreParams = Readonly<Partial<Record<'requestState' | 'inputResponses' | 'task', string>>>

/** What a `tools/call` consists of. */
export interface ToolCallParts {
  /** JSON text. */
  readonly id: string
  /** Of the tool. */
  readonly name: string
  /** JSON text of an object. */
  readonly arguments: string
  /** Undefined where it has none. */
  readonly meta: Meta | undefined
  readonly more?: MoreParams
}

/**
 * A `tools/call` that the gateway makes itself. Its text is put together of parts that are in order, so that nothing has
 * to be looked for in it, as in that of a client. Throws a SyntaxError where the arguments are nested too deep.
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
    ...{ argumentsStart, argumentsEnd, metaStart, metaEnd },
  }
  // Its id is there for whether it is a request.
  return new Message(text, { id, method: 'tools/call', params }, places)
}

const HEAD = '{"jsonrpc":"2.0","id":'
const METHOD = ',"method":"tools/call","params":'
const NAME = '{"name":'
const ARGUMENTS = ',"arguments":'
const META = ',"_meta":'
