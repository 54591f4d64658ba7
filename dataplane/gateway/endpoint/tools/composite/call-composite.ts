import { isObject } from '../../../../../crds/settings/json.ts'
import type { Workflow } from '../../../../config/workflow/compiled.ts'
import { findViolation, withDefaults } from '../../../../config/workflow/json-schema.ts'
import { workflowLimits } from '../../../../config/workflow/limits.ts'
import { Reservation } from '../../../../server/budget.ts'
import { PublicError } from '../../../../server/errors.ts'
import { boundTo, digestParams, seal, unseal } from '../../../call/suspended/request-state.ts'
import { Members, memberText, parseExact, skipSpace } from '../../../mcp/json.ts'
import { errorResult } from '../../../mcp/rpc-text.ts'
import type { RequestContext } from '../../../request/exchange.ts'
import type { InFlightCall } from '../../../request/in-flight.ts'
import { TOKEN_ENDED } from '../../../request/token-watch.ts'
import type { Session } from '../../../sessions/session.ts'
import type { SharedKeys } from '../../../sessions/store/shared-keys.ts'
import { type Progress, StepFailure } from '../../../workflows/host.ts'
import { buildResult } from '../../../workflows/result.ts'
import { type Outcome, Run, type RunOptions } from '../../../workflows/run.ts'
import type { EndpointRequest } from '../../incoming/endpoint-exchange.ts'
import { type CallStepTool, type RunEnd, WorkflowAudit, workflowHost } from './workflow-host.ts'

/** The memory of a run, in addition to the results of its steps. */
const RUN_BYTES = 16 * 1024
const HEARTBEAT_MS = 15_000

type Started = Omit<RunOptions, 'host'>

/**
 * Answers an authorized call of a composite tool: runs its steps, or continues a run that was waiting for its client's
 * input. Invalid arguments give an error result. Throws `invalid_params` if the `requestState` is invalid.
 */
export function callComposite(request: EndpointRequest, current: Workflow, callStepTool: CallStepTool): Promise<void> {
  const { message, gateway, era } = request
  if (era === 'modern' && message.isContinued) {
    const { workflow: digest, progress } = openProgress(gateway.keys, request)
    const workflow = digest === current.digest ? current : gateway.workflows.definition(digest)
    if (workflow === undefined)
      throw new PublicError('invalid_params', {
        message: 'This tool changed after it asked, so that this call cannot continue. Call the tool again.',
      })
    const params = readParams(request, workflow)
    return new WorkflowCall(request, { workflow, params, progress, answers: readAnswers(request) }, callStepTool).run()
  }
  const given = message.params?.['arguments'] ?? {}
  const violation = findViolation(current.parameters, given)
  if (violation !== undefined) {
    request.result(errorResult(era, `${current.name}: arguments${violation.pointer} ${violation.message}`))
    return Promise.resolve()
  }
  return new WorkflowCall(request, { workflow: current, params: readParams(request, current) }, callStepTool).run()
}

/** Returns the arguments with their defaults. Large integers keep their spelling. */
function readParams({ message: { text, argumentsStart, argumentsEnd } }: EndpointRequest, workflow: Workflow): unknown {
  const given = argumentsStart === -1 ? {} : parseExact(text.slice(argumentsStart, argumentsEnd))
  return withDefaults(workflow.parameters, isObject(given) ? given : {})
}

/** Returns the client's answers by the keys of the questions, as JSON texts of objects. */
function readAnswers({ message: { text, paramsStart, paramsEnd } }: EndpointRequest): ReadonlyMap<string, string> {
  const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
  const answers = new Map<string, string>()
  const members = new Members(responses, skipSpace(responses, 0))
  while (members.next()) if (members.value.startsWith('{')) answers.set(members.key, members.value)
  return answers
}

/** A call of a composite tool: its run, its client, and all ways in which it can end. */
class WorkflowCall implements InFlightCall {
  readonly context: EndpointRequest
  readonly workflow: Workflow
  /** The calls of its steps count instead. */
  readonly share = undefined
  readonly id: string
  readonly deadline: number
  heartbeatAt: number
  checkedAt: number
  index = -1
  place = -1
  readonly #run: Run
  readonly #params: unknown
  readonly #room: Reservation | undefined
  readonly #audit: WorkflowAudit
  readonly #isBegun: boolean
  #isOver = false

  /** Creates the call. Throws if the caller's share is full. */
  constructor(context: EndpointRequest, started: Started, callStepTool: CallStepTool) {
    const { workflow, params, progress } = started
    this.context = context
    this.workflow = workflow
    this.#params = params
    this.#isBegun = progress !== undefined
    this.id = context.message.id as string
    const now = performance.now()
    const used = progress === undefined ? 0 : Date.now() - progress.startedAt
    this.deadline = now + workflow.timeoutMs - used
    this.heartbeatAt = now + HEARTBEAT_MS
    this.checkedAt = now
    this.#room = context.share === undefined ? undefined : new Reservation(context.share)
    this.#room?.demand(RUN_BYTES)
    this.#audit = new WorkflowAudit(context, workflow.name)
    const parts = { workflow: workflow.name, room: this.#room, audit: this.#audit, callStepTool }
    this.#run = new Run({ ...started, host: workflowHost(context, parts) })
  }

  get session(): Session | undefined {
    return this.context.session
  }

  /** The names of the steps in progress. */
  get running(): readonly string[] {
    return this.#run.running
  }

  async run(): Promise<void> {
    const { gateway } = this.context
    gateway.inFlight.add(this)
    gateway.workflows.begin(this)
    this.context.onGone = this
    if (!this.#isBegun) this.#audit.started()
    try {
      const outcome = await this.#run.go()
      if (!this.#isOver) this.#answer(outcome)
    } catch (error) {
      if (!this.#isOver) this.#close('failed', () => this.context.fail(error))
    } finally {
      this.#room?.release()
    }
  }

  #answer(outcome: Outcome): void {
    if (outcome.kind === 'failed') {
      this.#failed(`step ${JSON.stringify(outcome.step)} has failed: ${outcome.reason}`)
      return
    }
    try {
      if (outcome.kind === 'done') this.#give(buildResult(this.workflow, outcome.steps, this.#params))
      else this.#ask(outcome)
    } catch (error) {
      if (!(error instanceof StepFailure)) throw error
      this.#failed(`the output can’t be made: ${error.message}`)
    }
  }

  #give(members: Readonly<Record<string, string>>): void {
    const type = this.context.era === 'modern' ? { resultType: '"complete"' } : {}
    const texts = Object.entries({ ...type, ...members }).map(([name, text]) => `"${name}":${text}`)
    this.#close('completed', () => this.context.result(`{${texts.join(',')}}`))
  }

  #ask({ requests, progress }: Extract<Outcome, { kind: 'waiting' }>): void {
    const { context, workflow } = this
    const { gateway } = context
    const state = JSON.stringify(sealProgress(gateway.keys, context, workflow.digest, progress))
    gateway.workflows.remember(workflow)
    const asked = Object.entries(requests).map(([key, text]) => `${JSON.stringify(key)}:${text}`)
    this.#close('waiting', () =>
      context.result(`{"resultType":"input_required","inputRequests":{${asked.join(',')}},"requestState":${state}}`),
    )
  }

  #failed(text: string, how: 'failed' | 'timed_out' = 'failed'): void {
    const { context, workflow } = this
    this.#close(how, () => context.result(errorResult(context.era, `${workflow.name}: ${text}`)))
  }

  #close(outcome: RunEnd | 'waiting', answer: () => void): void {
    this.#isOver = true
    const { gateway } = this.context
    gateway.inFlight.delete(this)
    gateway.workflows.end(this, outcome === 'timed_out' ? 'failed' : outcome)
    if (outcome !== 'waiting') this.#audit.ended(outcome, Date.now() - this.#run.startedAt)
    answer()
    // Later results of backends are no longer used.
    this.#run.end()
  }

  timeOut(): void {
    if (!this.#isOver) this.#failed(`it took longer than ${this.workflow.timeoutMs / 1000} s`, 'timed_out')
  }

  heartbeat(): void {
    this.heartbeatAt += HEARTBEAT_MS
    if (!this.#isOver) this.context.reply.heartbeat()
  }

  /** Handles the client's cancellation of the request, after which it expects no answer. */
  cancel(): void {
    this.#unanswered(() => this.context.reply.endUnanswered())
  }

  /**
   * Handles the loss of the client. For a modern client it cancels the call; a legacy client may return for the answer.
   */
  gone(): void {
    if (this.context.era === 'modern') this.#unanswered(() => undefined)
  }

  sessionEnded(): void {
    if (!this.#isOver) this.#close('failed', () => this.context.fail(new PublicError('session_unknown')))
  }

  tokenEnded(): void {
    if (this.#isOver || this.context.reply.disconnect()) return
    this.#close('failed', () => this.context.fail(new PublicError('answer_lost', { message: TOKEN_ENDED })))
  }

  #unanswered(end: () => void): void {
    if (this.#isOver) return
    this.#close('failed', () => {
      end()
      this.context.ended({ result: 'error' })
    })
  }
}

/** The content of a waiting workflow's state. `workflow`: digest of its definition; `call`: that of its arguments. */
interface Sealed {
  readonly workflow: string
  readonly call: string
  readonly progress: Progress
}

const USE = 'workflow-state'

/**
 * Seals the progress of a workflow, which its client returns to any replica. It is bound to the caller, the tool and
 * its arguments. Throws a StepFailure if it is too large for the client to keep.
 */
function sealProgress(keys: SharedKeys, context: RequestContext, workflow: string, progress: Progress): string {
  const text = JSON.stringify({ workflow, call: digestParams(context), progress })
  if (text.length > workflowLimits.state)
    throw new StepFailure(
      `the results of its steps are too large to keep while the user is asked: ${text.length} characters of ${workflowLimits.state}`,
    )
  const [key] = keys.keysFor(USE)
  return seal(key, text, boundTo(context))
}

/** Opens a sealed progress. Throws `invalid_params` for anything that was not sealed here, or for another call. */
function openProgress(keys: SharedKeys, context: RequestContext): Omit<Sealed, 'call'> {
  const state = context.message.parameter('requestState') ?? ''
  for (const key of keys.keysFor(USE)) {
    const text = unseal(key, state, boundTo(context))
    if (text === undefined) continue
    const { call, ...sealed } = parseExact(text) as Sealed
    if (call !== digestParams(context))
      throw otherCall('belongs to a call with other arguments: repeat them as they were')
    if (Date.now() > sealed.progress.startedAt + workflowLimits.workflowMs) throw otherCall('has waited for too long')
    return sealed
  }
  throw otherCall('is not one that this server gave')
}

const otherCall = (message: string): PublicError =>
  new PublicError('invalid_params', { message: `params.requestState ${message}, or call the tool again.` })
