import type { AuditEvent } from '../../../../audit/event.ts'
import type { AuditEventType } from '../../../../config/audit/event-types.ts'
import { aboutRequest } from '../../../request/audit/audit-request.ts'
import type { Finished } from '../../../workflows/records.ts'
import type { EndpointRequest } from '../../incoming/endpoint-exchange.ts'

/** How a run ends. */
export type RunEnd = 'completed' | 'failed' | 'timed_out'

/** Tells the audit log of one run of a composite tool and of its steps. The calls that it makes tell of themselves. */
export class WorkflowAudit {
  readonly #context: EndpointRequest
  readonly #name: string
  /** Gathered while the request is under way: steps may end after it. */
  readonly #about: ReturnType<typeof aboutRequest> | undefined
  /** `performance.now()` of the beginning of each step that is under way. */
  readonly #steps = new Map<string, number>()

  constructor(context: EndpointRequest, name: string) {
    this.#context = context
    this.#name = name
    this.#about = context.gateway.audit.log === undefined ? undefined : aboutRequest(context)
  }

  started(): void {
    this.#tell('vmcp_workflow_started', 'success')
  }

  /** `durationMs`: since the run began, which may have been with another request. */
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
