import type { Observation, Operation, Outcome } from '../../../telemetry/observe.ts'
import { editObject } from '../../mcp/json.ts'
import { COPIES } from '../../mcp/message.ts'
import { metaWithoutTasks } from '../../mcp/tasks.ts'
import { type Meta, type ToolCallParts, toolCall } from '../../mcp/tool-call.ts'
import { REQUEST_BYTES } from '../../request/exchange.ts'
import type { Reply } from '../../request/reply.ts'
import { EndpointExchange, type EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * A call of a tool that the gateway makes while it serves a request of a client: its id is of no other request of that
 * client, but for the one that it is made for, its name is the tool's as clients see it, and its `_meta` is what
 * `metaOfPart` or `metaOfWhole` gives.
 */
export type InnerCall = ToolCallParts

/** Where the answer goes, and who is told of its end. */
export interface InnerAnswer {
  readonly reply: Reply
  /** What is measured of what the call is a part of; absent: of the request that it is made for. */
  readonly parent?: Observation | undefined
  ended?(outcome: Outcome): void
}

/** What the client has said of its own request alone: of its progress, and of what its spans hang on. */
const OF_SPAN = { traceparent: undefined, tracestate: undefined }
const OF_OUTER = { progressToken: undefined, ...OF_SPAN }

/** `_meta` of a call that is a part of what the client's request is for. */
export const metaOfPart = (outer: EndpointRequest): Meta | undefined =>
  metaOf(metaWithoutTasks(editObject(metaText(outer), OF_OUTER)))

/**
 * `_meta` of a call that is all that its client's request is for: what that says of its progress holds for the call, and
 * its answer may be a task.
 */
export const metaOfWhole = (outer: EndpointRequest): Meta | undefined => metaOf(editObject(metaText(outer), OF_SPAN))

const metaText = ({ message: { metaStart, metaEnd, text } }: EndpointRequest): string =>
  metaStart === -1 ? '{}' : text.slice(metaStart, metaEnd)

const metaOf = (text: string): Meta | undefined => (text === '{}' ? undefined : { text, value: JSON.parse(text) })

/**
 * A `tools/call` on behalf of the client of another request, as if the client had sent it: same caller, session, era,
 * capabilities and view of the backends, so that whatever a call is held to holds for it as well. This is the one way to
 * tools from inside (composite tools, `call_tool`). What serves it is a function of tools.ts, such as `callTool`:
 *
 *     innerRequest(outer, { id, name, arguments: text, meta }, { reply }).run(callTool)
 *
 * The reply gets the answer, or the error in its place, as a whole JSON-RPC message or in parts, and before it
 * notifications of the backend and its requests to the client. Whoever gives it the outer request's own reply and id
 * ends that in `ended`. Memory is counted in the caller's share. Throws where that has no room.
 */
export function innerRequest(outer: EndpointRequest, call: InnerCall, answer: InnerAnswer): EndpointRequest {
  const inner = new InnerRequest(outer, answer)
  inner.hold(REQUEST_BYTES + COPIES * sizeOf(call))
  try {
    return inner.understand(toolCall(call))
  } catch (error) {
    inner.hold(0)
    throw error
  }
}

/** Characters of what callers have a say in. */
function sizeOf({ name, arguments: args, meta, more = {} }: InnerCall): number {
  let size = name.length + args.length + (meta?.text.length ?? 0)
  for (const text of Object.values(more)) size += text.length
  return size
}

const CALL: Operation = { kind: 'inner-call', name: 'tools/call' }

class InnerRequest extends EndpointExchange {
  override readonly isInner = true
  /** What is measured of what it is a part of. */
  readonly parent: Observation | undefined
  readonly #answer: InnerAnswer

  constructor(outer: EndpointRequest, answer: InnerAnswer) {
    super(outer.gateway, outer.res, answer.reply, outer)
    this.#answer = answer
    this.parent = answer.parent ?? outer.observation
  }

  protected override operationOf(): Operation {
    return CALL
  }

  override ended(outcome: Outcome): void {
    super.ended(outcome)
    this.#answer.ended?.(outcome)
  }
}
