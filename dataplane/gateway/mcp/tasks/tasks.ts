import { CAPABILITIES_KEY } from '../classify.ts'
import { hasExtension } from '../extension.ts'
import { editObject, memberText } from '../json.ts'

/** The extension by which a server of the modern era runs calls as tasks (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/** Whether these capabilities have the tasks extension. */
export const hasTasks = (capabilities: unknown): boolean => hasExtension(capabilities, TASKS_EXTENSION)

/** A request's `_meta` (JSON text of an object) without the extension: of one whose answer may be no task. */
export function metaWithoutTasks(meta: string): string {
  const capabilities = memberText(meta, CAPABILITIES_KEY)
  const extensions = capabilities === undefined ? undefined : memberText(capabilities, 'extensions')
  if (capabilities === undefined || extensions === undefined || memberText(extensions, TASKS_EXTENSION) === undefined)
    return meta
  const others = editObject(extensions, { [TASKS_EXTENSION]: undefined })
  return editObject(meta, { [CAPABILITIES_KEY]: editObject(capabilities, { extensions: others }) })
}
