import type { Observation, Operation, Outcome } from '../../../telemetry/observe.ts'
import { editObject } from '../../mcp/json.ts'
import { COPIES, type Meta, type ToolCallParts, toolCall } from '../../mcp/message.ts'
import { metaWithoutTasks } from '../../mcp/tasks.ts'
import { REQUEST_BYTES } from '../../request/exchange.ts'
import type { Reply } from '../../request/reply.ts'
import { EndpointExchange, type EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * A tool call that the gateway makes while it serves a client's request. Its id differs from those of that client's
 * other requests, or is the id of the served request itself. Its name is the one that clients use. Its `_meta` comes
 * from `metaOfPart` or `metaOfWhole`.
 */
export type InnerCall = ToolCallParts

export interface InnerAnswer {
  readonly reply: Reply
  /** The telemetry of the operation that the call belongs to; absent: that of the served request. */
  readonly parent?: Observation | undefined
  /** True if the call is the whole work for the served request. */
  readonly isWhole?: boolean
  ended?(outcome: Outcome): void
}

/** Members of `_meta` that apply only to the client's own request: its progress token and the parent of its spans. */
const OF_SPAN = { traceparent: undefined, tracestate: undefined }
const OF_OUTER = { progressToken: undefined, ...OF_SPAN }

/** Returns the `_meta` of a call that is a part of the work for the client's request. */
export const metaOfPart = (outer: EndpointRequest): Meta | undefined =>
  toMeta(metaWithoutTasks(editObject(metaText(outer), OF_OUTER)))

/**
 * Returns the `_meta` of a call that is the whole work for its client's request: the client's progress token applies to
 * the call, and its answer may be a task.
 */
export const metaOfWhole = (outer: EndpointRequest): Meta | undefined => toMeta(editObject(metaText(outer), OF_SPAN))

const metaText = ({ message: { metaStart, metaEnd, text } }: EndpointRequest): string =>
  metaStart === -1 ? '{}' : text.slice(metaStart, metaEnd)

const toMeta = (text: string): Meta | undefined => (text === '{}' ? undefined : { text, value: JSON.parse(text) })

/**
 * Builds a `tools/call` on behalf of the client of another request, as if the client had sent it: same caller, session,
 * era, capabilities and view of the backends, so that the same checks apply. This is the one way to tools from inside
 * (composite tools, `call_tool`). A function of tools.ts, such as `callTool`, serves it:
 *
 *     innerRequest(outer, { id, name, arguments: text, meta }, { reply }).run(callTool)
 *
 * The reply gets the answer, or the error in its place, as a whole JSON-RPC message or in parts, and before it
 * the backend's notifications and requests to the client. A caller that passes the outer request's own reply and id
 * ends the outer request in `ended`. Memory is counted in the caller's share. Throws if that has no room.
 */
export function innerRequest(outer: EndpointRequest, call: InnerCall, answer: InnerAnswer): EndpointRequest {
  const inner = new InnerRequest(outer, answer)
  inner.hold(REQUEST_BYTES + COPIES * measureCall(call))
  try {
    return inner.understand(toolCall(call))
  } catch (error) {
    inner.hold(0)
    throw error
  }
}

/** Returns the number of characters that callers control. */
function measureCall({ name, arguments: args, meta, more = {} }: InnerCall): number {
  let size = name.length + args.length + (meta?.text.length ?? 0)
  for (const text of Object.values(more)) size += text.length
  return size
}

const CALL: Operation = { kind: 'inner-call', name: 'tools/call' }

class InnerRequest extends EndpointExchange {
  override readonly isInner = true
  /** The telemetry of the operation that it is a part of. */
  readonly parent: Observation | undefined
  readonly #answer: InnerAnswer

  constructor(outer: EndpointRequest, answer: InnerAnswer) {
    super(outer.gateway, outer.res, answer.reply, outer)
    this.#answer = answer
    this.parent = answer.parent ?? outer.observation
  }

  override get isPart(): boolean {
    return this.#answer.isWhole !== true
  }

  protected override operationOf(): Operation {
    return CALL
  }

  override ended(outcome: Outcome): void {
    super.ended(outcome)
    this.#answer.ended?.(outcome)
  }
}
