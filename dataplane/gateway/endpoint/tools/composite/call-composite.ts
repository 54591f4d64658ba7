import { isObject } from '../../../../../crds/shared/json.ts'
import type { Workflow } from '../../../../config/workflow/compiled.ts'
import { violationOf, withDefaults } from '../../../../config/workflow/json-schema.ts'
import { PublicError } from '../../../../server/errors.ts'
import { Members, memberText, skipSpace } from '../../../mcp/json.ts'
import { errorResult } from '../../../mcp/rpc-text.ts'
import { parseExact } from '../../../workflows/exact-json.ts'
import { openProgress } from '../../../workflows/workflow-state.ts'
import type { EndpointRequest } from '../../incoming/endpoint-exchange.ts'
import { WorkflowCall } from './workflow-call.ts'
import type { CallStepTool } from './workflow-host.ts'

/**
 * Answers a call of a composite tool, which the caller may call: runs its steps, or goes on with those of a run whose
 * client was asked something. Wrong arguments are an error result. Throws `invalid_params` where the `requestState` is no
 * good.
 */
export function callComposite(request: EndpointRequest, current: Workflow, callStepTool: CallStepTool): Promise<void> {
  const { message, gateway, era } = request
  if (era === 'modern' && message.params?.['requestState'] !== undefined) {
    const { workflow: digest, progress } = openProgress(gateway.keys, request)
    const workflow = digest === current.digest ? current : gateway.workflows.definition(digest)
    if (workflow === undefined)
      throw new PublicError('invalid_params', {
        message: 'This tool has changed since it asked: what it has done so far is not gone on with. Call anew.',
      })
    const params = paramsOf(request, workflow)
    return new WorkflowCall(request, { workflow, params, progress, answers: answersOf(request) }, callStepTool).run()
  }
  const given = message.params?.['arguments'] ?? {}
  const violation = violationOf(current.parameters, given)
  if (violation !== undefined) {
    request.result(errorResult(era, `${current.name}: arguments${violation.pointer} ${violation.message}`))
    return Promise.resolve()
  }
  return new WorkflowCall(request, { workflow: current, params: paramsOf(request, current) }, callStepTool).run()
}

/** The arguments with their defaults; large integers as they were written. */
function paramsOf({ message: { text, argumentsStart, argumentsEnd } }: EndpointRequest, workflow: Workflow): unknown {
  const given = argumentsStart === -1 ? {} : parseExact(text.slice(argumentsStart, argumentsEnd))
  return withDefaults(workflow.parameters, isObject(given) ? given : {})
}

/** What the client has answered, by the keys of what it was asked; JSON texts of objects. */
function answersOf({ message: { text, paramsStart, paramsEnd } }: EndpointRequest): ReadonlyMap<string, string> {
  const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
  const answers = new Map<string, string>()
  const members = new Members(responses, skipSpace(responses, 0))
  while (members.next()) if (members.value.startsWith('{')) answers.set(members.key, members.value)
  return answers
}
