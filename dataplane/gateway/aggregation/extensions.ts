import { isObject } from '../../../crds/shared/json.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { APPS_EXTENSION } from '../mcp/apps.ts'
import { SESSION_TASKS_EXTENSION } from '../mcp/tasks/session-tasks.ts'
import { hasTasks, TASKS_EXTENSION } from '../mcp/tasks/tasks.ts'

/** `extensions` as declared in both eras: those for which nothing is to be done between; empty where there are none. */
export function extensionsOf(backends: readonly Backend[]): object {
  const apps = backends.flatMap(({ capabilities: { extensions } }) =>
    isObject(extensions) && isObject(extensions[APPS_EXTENSION]) ? [extensions[APPS_EXTENSION]] : [],
  )
  return declared(apps.length === 0 ? {} : { [APPS_EXTENSION]: Object.assign({}, ...apps) as object })
}

/** The same for the modern era, which has more. */
export function modernExtensionsOf(backends: readonly Backend[]): object {
  const hasModernTasks = backends.some(({ era, capabilities }) => era?.era === 'modern' && hasTasks(capabilities))
  const { extensions } = extensionsOf(backends) as { readonly extensions?: object }
  return declared({
    ...extensions,
    ...(hasModernTasks ? { [TASKS_EXTENSION]: {} } : {}),
    ...(backends.some(({ runsTasks }) => runsTasks) ? { [SESSION_TASKS_EXTENSION]: {} } : {}),
  })
}

const declared = (extensions: object): object => (Object.keys(extensions).length === 0 ? {} : { extensions })

/** Tasks of 2025-11-25 as a capability; empty where no backend runs any. */
export function sessionTasksOf(backends: readonly Backend[]): object {
  const offered = backends
    .filter(({ runsTasks }) => runsTasks)
    .map(({ capabilities }) => capabilities['tasks'] as object)
  if (offered.length === 0) return {}
  const also = (name: string) => (offered.some((tasks) => name in tasks) ? { [name]: {} } : {})
  return { tasks: { ...also('list'), ...also('cancel'), requests: { tools: { call: {} } } } }
}
