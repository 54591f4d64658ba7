import { hasExtension } from './extension.ts'

/** The extension by which a server of the modern era runs calls as tasks (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/** Whether these capabilities have the tasks extension. */
export const hasTasks = (capabilities: unknown): boolean => hasExtension(capabilities, TASKS_EXTENSION)
