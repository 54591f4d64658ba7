import { isObject } from '../../../crds/settings/json.ts'
import { editObject, foldName, Members, memberText, skipSpace } from './json.ts'
import { CAPABILITIES_KEY, hasExtension } from './revisions.ts'

/** The extension with which a server of the modern era runs calls as tasks (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/**
 * The gateway's own extension, declared in the modern era: calls behind it run as tasks of the legacy era. Another
 * gateway that relays such tasks uses the legacy era with it.
 */
export const SESSION_TASKS_EXTENSION = 'portico.dev/session-tasks'

/** The key of `_meta` that names the task to which a message belongs (2025-11-25, tasks). */
export const RELATED_TASK_KEY = 'io.modelcontextprotocol/related-task'

/** Returns the task's id for the other side; undefined if the task must not be named there. */
type IdFor = (id: string) => string | undefined

/** Tells whether these capabilities include the tasks extension. */
export const hasTasks = (capabilities: unknown): boolean => hasExtension(capabilities, TASKS_EXTENSION)

/**
 * Returns a request's `_meta` (JSON text of an object) without the extension, for a request that must not be answered
 * with a task.
 */
export function metaWithoutTasks(meta: string): string {
  const capabilities = memberText(meta, CAPABILITIES_KEY)
  const extensions = capabilities === undefined ? undefined : memberText(capabilities, 'extensions')
  if (capabilities === undefined || extensions === undefined || memberText(extensions, TASKS_EXTENSION) === undefined)
    return meta
  const others = editObject(extensions, { [TASKS_EXTENSION]: undefined })
  return editObject(meta, { [CAPABILITIES_KEY]: editObject(capabilities, { extensions: others }) })
}

/** Tells whether a server with these capabilities runs tool calls as tasks (2025-11-25). */
export function declaresTasks({ tasks }: Readonly<Record<string, unknown>>): boolean {
  const requests = isObject(tasks) ? tasks['requests'] : undefined
  const tools = isObject(requests) ? requests['tools'] : undefined
  return isObject(tools) && isObject(tools['call'])
}

/**
 * Returns `params` or a result (JSON text) whose `_meta` names its task with the id for the other side, or names none.
 * Everything else stays unchanged. Members that a lenient parser would treat as the same are removed.
 */
export const withRelatedTask = (text: string, idFor: IdFor): string =>
  withMember(text, '_meta', (meta) => metaWithRelatedTask(meta, idFor))

/** Does the same for `_meta` itself. */
export const metaWithRelatedTask = (meta: string, idFor: IdFor): string =>
  withMember(meta, RELATED_TASK_KEY, (related) => {
    const id = taskIdIn(related)
    const other = id === undefined ? undefined : idFor(id)
    return other === undefined ? undefined : `{"taskId":${JSON.stringify(other)}}`
  })

/** Returns the `taskId` of an object that is JSON text. */
export function taskIdIn(text: string): string | undefined {
  const id: unknown = JSON.parse(memberText(text, 'taskId') ?? 'null')
  return typeof id === 'string' ? id : undefined
}

/**
 * Returns the object with one member edited, or removed if `edit` returns undefined. Other members whose names differ
 * only in case are removed.
 */
function withMember(text: string, name: string, edit: (value: string) => string | undefined): string {
  const members = new Members(text, skipSpace(text, 0))
  const parts: string[] = []
  let isKnown = false
  let isChanged = false
  while (members.next()) {
    const { key, value } = members
    const isMeant: boolean = key === name && !isKnown
    const edited: string | undefined = isMeant ? edit(value) : foldName(key) === name ? undefined : value
    isKnown ||= isMeant
    isChanged ||= edited !== value
    if (edited !== undefined) parts.push(text.slice(members.keyStart, members.valueStart) + edited)
  }
  return isChanged ? `{${parts.join(',')}}` : text
}
