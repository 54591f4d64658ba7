import type { Backend } from '../backends/backend.ts'
import { SESSION_TASKS_EXTENSION } from '../backends/session-tasks.ts'
import { hasTasks, TASKS_EXTENSION } from '../backends/task-ids.ts'

/** `extensions` as declared in the modern era; empty where there are none. */
export function modernExtensionsOf(backends: readonly Backend[]): object {
  const hasModernTasks = backends.some(({ era, capabilities }) => era?.era === 'modern' && hasTasks(capabilities))
  const extensions = {
    ...(hasModernTasks ? { [TASKS_EXTENSION]: {} } : {}),
    ...(backends.some(({ runsTasks }) => runsTasks) ? { [SESSION_TASKS_EXTENSION]: {} } : {}),
  }
  return Object.keys(extensions).length === 0 ? {} : { extensions }
}

/** Tasks of 2025-11-25 as a capability; empty where no backend runs any. */
export function sessionTasksOf(backends: readonly Backend[]): object {
  const declared = backends
    .filter(({ runsTasks }) => runsTasks)
    .map(({ capabilities }) => capabilities['tasks'] as object)
  if (declared.length === 0) return {}
  const also = (name: string) => (declared.some((tasks) => name in tasks) ? { [name]: {} } : {})
  return { tasks: { ...also('list'), ...also('cancel'), requests: { tools: { call: {} } } } }
}
