import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../../crds/settings/json.ts'
import type { AuditEvent } from '../../../../audit/event.ts'
import type { AuditEventType } from '../../../../config/audit/event-types.ts'
import { workflowLimits } from '../../../../config/workflow/limits.ts'
import { Reservation } from '../../../../server/budget.ts'
import { PublicError } from '../../../../server/errors.ts'
import type { Observation } from '../../../../telemetry/observe.ts'
import type { StepTool } from '../../../aggregation/composite-tools.ts'
import { CLIENT_TIMEOUT_MS, hasCapabilities } from '../../../call/input/server-request.ts'
import { CAPABILITIES_KEY } from '../../../mcp/eras.ts'
import { memberText } from '../../../mcp/json.ts'
import { notificationText } from '../../../mcp/rpc-text.ts'
import type { Reply } from '../../../request/reply.ts'
import { aboutRequest } from '../../../request/request-record.ts'
import type { Session } from '../../../sessions/session.ts'
import { missingCapability, readAnswer } from '../../../workflows/attempt.ts'
import { type Finished, type Host, type StepAnswer, type StepCall, StepFailure } from '../../../workflows/host.ts'
import type { EndpointRequest } from '../../incoming/endpoint-exchange.ts'
import { type InnerCall, innerRequest, metaOfPart } from '../inner-call.ts'

/** Calls a tool for a step, with the rights of the request's caller; `tool` is undefined if no tool has this name. */
export type CallStepTool = (request: EndpointRequest, name: string, tool: StepTool | undefined) => void

interface HostParts {
  readonly workflow: string
  /** Counts the memory that the run keeps. */
  readonly room: Reservation | undefined
  readonly audit: WorkflowAudit
  readonly callStepTool: CallStepTool
}

export type RunEnd = 'completed' | 'failed' | 'timed_out'

export function workflowHost(outer: EndpointRequest, { workflow, room, audit, callStepTool }: HostParts): Host {
  const { session, message, reply, gateway, observation: parent } = outer
  const attributes = { 'portico.workflow': workflow }
  const steps = new Map<string, Observation>()
  const capabilities =
    session === undefined ? message.meta?.[CAPABILITIES_KEY] : JSON.parse(session.record.capabilities)
  const token = message.meta?.['progressToken']
  const meta = metaOfPart(outer)
  // The id differs from those of all requests of all clients.
  const id = `portico-step-${randomUUID()}`
  let calls = 0
  return {
    call: (call) =>
      callTool(outer, call, { id: `"${id}-${calls++}"`, meta, parent: steps.get(call.step), callStepTool }),
    canAsk: hasCapabilities(capabilities, { elicitation: {} }),
    ask:
      session === undefined
        ? undefined
        : (question, options) => askInSession(outer, session, JSON.stringify(question), options),
    hold: (bytes) => room?.resize(bytes) ?? true,
    stepBegins(step) {
      steps.set(step, gateway.observe({ kind: 'step', name: step, attributes }, { parent }))
      audit.stepBegins(step)
    },
    stepEnds(step, status, { done, total }) {
      steps.get(step)?.end({ result: status === 'failed' ? 'error' : 'ok' })
      steps.delete(step)
      if (status === 'waiting') return
      audit.stepEnds(step, status)
      if (typeof token !== 'string' && typeof token !== 'number') return
      const progress = { progressToken: token, progress: done, total, message: `step ${step}: ${status}` }
      reply.message(notificationText('notifications/progress', progress))
    },
  }
}

interface Making extends Pick<InnerCall, 'id' | 'meta'> {
  readonly parent: Observation | undefined
  readonly callStepTool: CallStepTool
}

/** Calls a tool as if the client had called it. Rejects with a StepFailure. */
function callTool(
  outer: EndpointRequest,
  { tool: name, arguments: args, more, ending }: StepCall,
  { id, meta, parent, callStepTool }: Making,
): Promise<StepAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<StepAnswer>()
  const { gateway, session, share, view } = outer
  const tool = view.catalog.stepTools.get(name)
  const stop = (reason: string): void => {
    fail(new StepFailure(reason))
    gateway.inFlight.find(session as Session, id)?.cancel()
  }
  const fail = (error: unknown): void => {
    ending.onEnd = undefined
    reject(error)
  }
  ending.onEnd = () => stop('it was ended')
  const reply = new StepReply(outer.reply, share === undefined ? undefined : new Reservation(share), {
    resolve(answer) {
      ending.onEnd = undefined
      resolve(answer)
    },
    reject: fail,
    tooMuch: () => stop('the output of the tool is larger than there is memory for'),
  })
  try {
    const inner = innerRequest(outer, { id, name: tool?.name ?? name, arguments: args, meta, more }, { reply, parent })
    if (ending.reason !== undefined) inner.fail(new PublicError('client_timeout'))
    else inner.run((request) => callStepTool(request as EndpointRequest, name, tool))
  } catch (error) {
    fail(toFailure(error))
  }
  return promise
}

function toFailure(error: unknown): unknown {
  if (error instanceof PublicError) return new StepFailure(error.message)
  return error instanceof SyntaxError ? new StepFailure('the arguments are nested too deep', { isFinal: true }) : error
}

async function askInSession(
  { gateway, reply }: EndpointRequest,
  session: Session,
  question: string,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
) {
  try {
    const response = await gateway.sessions.request(session, 'elicitation/create', question, {
      timeoutMs: Math.min(timeoutMs, CLIENT_TIMEOUT_MS),
      send: (text) => void reply.message(text),
      signal,
    })
    const result = memberText(response, 'result')
    if (result === undefined) throw new StepFailure('the client refused to ask its user')
    return readAnswer(result)
  } catch (error) {
    throw toFailure(error)
  }
}

/** Writes the audit events of one run of a composite tool and of its steps. The calls of the run write their own. */
export class WorkflowAudit {
  readonly #context: EndpointRequest
  readonly #name: string
  /** The request's description. It is collected while the request is in flight, because steps may end later. */
  readonly #about: ReturnType<typeof aboutRequest> | undefined
  /** The start times (`performance.now()`) of the steps in progress. */
  readonly #steps = new Map<string, number>()

  constructor(context: EndpointRequest, name: string) {
    this.#context = context
    this.#name = name
    this.#about = context.gateway.audit.log === undefined ? undefined : aboutRequest(context)
  }

  started(): void {
    this.#tell('vmcp_workflow_started', 'success')
  }

  /** Writes the event of the run's end. `durationMs`: the time since its start, which may be in an earlier request. */
  ended(how: RunEnd, durationMs: number): void {
    this.#tell(`vmcp_workflow_${how}`, how === 'completed' ? 'success' : 'failure', { durationMs })
  }

  stepBegins(step: string): void {
    this.#steps.set(step, performance.now())
    this.#tell('vmcp_workflow_step_started', 'success', { step })
  }

  stepEnds(step: string, status: Finished['status']): void {
    const durationMs = performance.now() - (this.#steps.get(step) ?? performance.now())
    this.#tell(`vmcp_workflow_step_${status}`, status === 'failed' ? 'failure' : 'success', { step, durationMs })
  }

  #tell(
    type: AuditEventType,
    outcome: AuditEvent['outcome'],
    { step, durationMs }: { readonly step?: string; readonly durationMs?: number } = {},
  ): void {
    const target = { method: 'tools/call', name: this.#name, step }
    this.#context.gateway.audit.log?.write({ ...this.#about, type, outcome, durationMs, target })
  }
}

/** Receives a call's result. */
interface Taker {
  resolve(answer: StepAnswer): void
  reject(error: StepFailure): void
  /** Ends the call because its result is too large. */
  tooMuch(): void
}

/** The JSON-RPC codes with which a call fails again on each retry, because something is missing or not allowed. */
const MISSING_CAPABILITY = -32021
const FINAL: ReadonlySet<unknown> = new Set([-32602, -32601, 403, MISSING_CAPABILITY])

/**
 * Receives the answer to a step's call, with which the workflow continues. Notifications and requests of the backend
 * before the answer go to the workflow's client.
 */
class StepReply implements Reply {
  readonly streaming = false
  readonly #outer: Reply
  readonly #reservation: Reservation | undefined
  readonly #taker: Taker
  #parts: Buffer[] = []
  #size = 0

  constructor(outer: Reply, reservation: Reservation | undefined, taker: Taker) {
    this.#outer = outer
    this.#reservation = reservation
    this.#taker = taker
  }

  get begun(): boolean {
    return this.#parts.length > 0
  }

  json(_status: number, body: string | Buffer): void {
    this.#take(body.toString())
  }

  pieces(pieces: readonly Buffer[]): void {
    this.#take(Buffer.concat(pieces).toString())
  }

  empty(): void {
    this.#fail('the call has no answer')
  }

  stream(): void {
    this.#outer.stream()
  }

  message(text: string | Buffer): boolean {
    return this.#outer.message(text)
  }

  heartbeat(): void {
    // The workflow has its own heartbeats.
  }

  part(bytes: Buffer): boolean {
    this.#size += bytes.length
    // The memory of the bytes and of the text that is made from them.
    if (this.#size > workflowLimits.output || this.#reservation?.resize(2 * this.#size) === false) {
      this.#parts = []
      this.#taker.tooMuch()
      return true
    }
    this.#parts.push(bytes)
    return true
  }

  onDrain(next: () => void): void {
    this.#outer.onDrain(next)
  }

  end(): void {
    if (this.#parts.length === 0) return
    const whole = Buffer.concat(this.#parts).toString()
    this.#parts = []
    this.#take(whole)
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.#fail('the call was ended')
  }

  abort(): void {
    this.#fail('the answer broke off')
  }

  #fail(message: string, detail: ConstructorParameters<typeof StepFailure>[1] = {}): void {
    this.#reservation?.release()
    this.#taker.reject(new StepFailure(message, detail))
  }

  /** Handles the whole JSON-RPC message. */
  #take(message: string): void {
    const result = memberText(message, 'result')
    if (result === undefined) {
      const error: unknown = JSON.parse(memberText(message, 'error') ?? 'null')
      const { code, message: said, data } = isObject(error) ? error : {}
      const needed = code === MISSING_CAPABILITY && isObject(data) ? data['requiredCapabilities'] : undefined
      const answer = isObject(needed) ? missingCapability(needed) : undefined
      this.#fail(typeof said === 'string' ? said : 'the call has failed', { isFinal: FINAL.has(code), answer })
      return
    }
    this.#reservation?.release()
    const type = memberText(result, 'resultType')
    if (type === undefined || type === '"complete"') this.#taker.resolve({ kind: 'result', text: result })
    else if (type === '"input_required"') this.#taker.resolve(readInput(result))
    else this.#fail(`the tool gave no result, but ${type.slice(0, 40)}`, { isFinal: true })
  }
}

function readInput(result: string): StepAnswer {
  const state: unknown = JSON.parse(memberText(result, 'requestState') ?? 'null')
  return {
    kind: 'input',
    requests: memberText(result, 'inputRequests') ?? '{}',
    state: typeof state === 'string' ? state : undefined,
  }
}
