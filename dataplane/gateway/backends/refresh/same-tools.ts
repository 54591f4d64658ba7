import type { BackendTool } from '../lists/tool.ts'

/** Whether two lists of tools are the same, text by text. */
export function sameTools(before: readonly BackendTool[] | undefined, after: readonly BackendTool[]): boolean {
  if (before?.length !== after.length) return false
  return after.every((tool, index) => tool.text === before[index]?.text)
}
