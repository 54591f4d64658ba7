import { isObject } from '../../../crds/settings/json.ts'
import { CAPABILITIES_KEY, TASKS_EXTENSION } from './eras.ts'
import { editObject, foldName, Members, memberText, skipSpace } from './json.ts'
import { RELATED_TASK_KEY } from './message.ts'

/** Returns the task's id for the other side; undefined if the task must not be named there. */
type IdFor = (id: string) => string | undefined

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
    const id = readTaskId(related)
    const other = id === undefined ? undefined : idFor(id)
    return other === undefined ? undefined : `{"taskId":${JSON.stringify(other)}}`
  })

/** Returns the `taskId` of an object that is JSON text. */
export function readTaskId(text: string): string | undefined {
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
