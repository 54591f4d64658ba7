import { isObject } from '../../../../crds/shared/json.ts'

/**
 * An extension of our own, which a gateway declares in the modern era: calls behind it run as tasks of the legacy
 * era. A gateway that relays those speaks the legacy era with it.
 */
export const SESSION_TASKS_EXTENSION = 'portico.dev/session-tasks'

/** Whether a server with these capabilities runs tool calls as tasks (2025-11-25). */
export function declaresTasks({ tasks }: Readonly<Record<string, unknown>>): boolean {
  const requests = isObject(tasks) ? tasks['requests'] : undefined
  const tools = isObject(requests) ? requests['tools'] : undefined
  return isObject(tools) && isObject(tools['call'])
}
