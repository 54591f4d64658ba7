import { isObject } from '../../../../crds/settings/json.ts'
import { PublicError } from '../../../server/errors.ts'
import { READ } from '../../call/answer-translation.ts'
import { answerLimited } from '../../call/own-answers.ts'
import { memberText } from '../../mcp/json.ts'
import type { MoreParams } from '../../mcp/message.ts'
import { errorResult, resultText } from '../../mcp/rpc-text.ts'
import { CALL_TOOL, FIND_TOOL, metaTools, type ToolSearch } from '../../search/tool-search.ts'
import { visibleList } from '../catalog/caller-catalog.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import { innerRequest, metaOfWhole } from './inner-call.ts'

/** The longest query in characters. A longer text does not describe a tool. */
const LONGEST_QUERY = 2_000

type Serve = (request: EndpointRequest) => void

export function listMetaTools(request: EndpointRequest, { most }: ToolSearch): void {
  const list = metaTools(most)
  request.result(request.era === 'modern' ? `{${READ},${list.slice(1)}` : list)
}

/**
 * Returns the function that serves a call of `find_tool` or `call_tool`; undefined for any other name. `call` serves a
 * call by a tool's name, as for any client.
 */
export function metaTool(name: string, search: ToolSearch, call: Serve): Serve | undefined {
  if (name === FIND_TOOL) return (request) => request.run(() => find(request, search))
  if (name === CALL_TOOL) return (request) => request.run(() => callFound(request, call))
  return undefined
}

/** Searches the tools that the caller sees. Denied tools are not searched. */
async function find(request: EndpointRequest, search: ToolSearch): Promise<void> {
  request.tellUse(FIND_TOOL)
  const asked = readQuery(request, search.most)
  if (typeof asked === 'string') {
    refuse(request, asked)
    return
  }
  // A search may cost as much as a call, because it asks an embedding service.
  const limited = await request.gateway.rateLimits.take(request.caller, FIND_TOOL, request.observation)
  if (limited !== undefined) {
    answerLimited(request, limited)
    return
  }
  if (!request.view.allListed) await request.view.firstLists()
  const list = await visibleList(request)
  const tools = await search.find(list, asked.query, asked.limit, request.share ?? request.binding)
  const found = `{"tools":[${tools.join(',')}]}`
  const content = JSON.stringify([{ type: 'text', text: found }])
  const type = request.era === 'modern' ? '"resultType":"complete",' : ''
  request.result(`{${type}"content":${content},"structuredContent":${found}}`)
}

/** Returns the query, or the reason why it is invalid. */
function readQuery({ message }: EndpointRequest, most: number): { query: string; limit: number } | string {
  const given = message.params?.['arguments']
  const { query, limit = most } = isObject(given) ? given : {}
  if (typeof query !== 'string') return 'arguments.query must be a string that says what the tool is to do.'
  if (query.length > LONGEST_QUERY) return `arguments.query has more than ${LONGEST_QUERY} characters.`
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1)
    return `arguments.limit must be an integer from 1 to ${most}.`
  return { query, limit: Math.min(limit, most) }
}

/** Calls a tool as if the client had called it by its name. */
async function callFound(request: EndpointRequest, call: Serve): Promise<void> {
  const { message } = request
  request.tellUse(CALL_TOOL)
  const given = message.params?.['arguments']
  const { name, arguments: more = {} } = isObject(given) ? given : {}
  if (typeof name !== 'string' || !isObject(more)) {
    const wrong =
      typeof name === 'string' ? 'arguments.arguments must be an object.' : 'arguments.name must be a string.'
    refuse(request, wrong)
    return
  }
  if (!request.view.allListed) await request.view.firstLists()
  const inner = innerRequest(
    request,
    {
      ...{ id: message.id as string, name, arguments: argumentsText(request) },
      ...{ more: membersText(request), meta: metaOfWhole(request) },
    },
    { reply: request.reply, isWhole: true, ended: (outcome) => request.ended(outcome) },
  )
  request.onGone = { gone: () => inner.onGone?.gone() }
  inner.run(() => callInner(inner, call))
}

/** Calls the tool. Callers can't distinguish a denied tool from a missing one. */
function callInner(inner: EndpointRequest, call: Serve): void {
  try {
    call(inner)
  } catch (error) {
    if (!(error instanceof PublicError && NOT_THERE.has(error.code))) throw error
    refuse(inner, 'There is no tool of this name for you; find_tool finds those that there are.')
  }
}

const NOT_THERE: ReadonlySet<string> = new Set(['forbidden', 'unknown_tool'])

function argumentsText(request: EndpointRequest): string {
  const given = memberText(readParams(request), 'arguments') ?? '{}'
  return memberText(given, 'arguments') ?? '{}'
}

/** Returns the client's answers to questions of the tool, and its request to run as a task. */
function membersText(request: EndpointRequest): MoreParams {
  const params = readParams(request)
  const of = (name: keyof MoreParams) => {
    const text = memberText(params, name)
    return text === undefined ? {} : { [name]: text }
  }
  return { ...of('inputResponses'), ...of('requestState'), ...of('task') }
}

const readParams = ({ message }: EndpointRequest): string => message.text.slice(message.paramsStart, message.paramsEnd)

function refuse(request: EndpointRequest, text: string): void {
  request.reply.json(200, resultText(request.message.id as string, errorResult(request.era, text)))
  request.ended({ result: 'error', code: 'invalid_params' })
}
