import { isObject } from '../../../../crds/shared/json.ts'
import { appOf, type ToolApp } from '../../mcp/apps.ts'
import { detached, Elements, memberText } from '../../mcp/json.ts'
import { InvalidParamHeader, type ParamHeader, paramHeadersOf } from '../../mcp/param-headers.ts'

/** A tool as its backend shows it. */
export interface BackendTool {
  readonly name: string
  /** The tool's JSON text as the backend wrote it: what we don't know is shown unchanged. */
  readonly text: string
  readonly paramHeaders: readonly ParamHeader[]
  readonly app: ToolApp | undefined
  /** Whether it says that a call may be repeated: it changes nothing, or nothing more the second time. */
  readonly isRepeatable: boolean
}

/** One page of a backend's tools. */
interface ToolPage {
  readonly tools: readonly BackendTool[]
  readonly nextCursor: string | undefined
  /** Tools that are left out, and why. */
  readonly warnings: readonly string[]
}

/** Characters: warnings are kept and logged, and both names in them are the backend's. */
const LONGEST_WARNING = 300

/**
 * Reads the answer to `tools/list`. A tool without a name or with invalid header declarations is left out
 * (2026-07-28, transports: a client must drop it); at one that `fits` refuses the list ends. Throws a TypeError where the answer holds no list.
 */
export function readToolPage(answer: string, fits: (textLength: number) => boolean = () => true): ToolPage {
  const result = memberText(answer, 'result')
  const list = result === undefined ? undefined : memberText(result, 'tools')
  if (result === undefined || list === undefined || !list.startsWith('[')) throw new TypeError('no list of tools')
  const cursor: unknown = JSON.parse(memberText(result, 'nextCursor') ?? 'null')
  const tools: BackendTool[] = []
  const warnings: string[] = []
  const elements = new Elements(list, 0)
  while (elements.next()) {
    const text = elements.value
    if (!fits(text.length)) break
    const tool = readTool(text)
    if (typeof tool === 'string') warnings.push(tool)
    else tools.push(tool)
  }
  return { tools, nextCursor: typeof cursor === 'string' ? cursor : undefined, warnings }
}

/** A tool, or the warning why it is left out. */
function readTool(text: string): BackendTool | string {
  const tool: unknown = JSON.parse(text)
  const name = isObject(tool) ? tool['name'] : undefined
  if (!isObject(tool) || typeof name !== 'string' || name === '') return 'a tool without a name is left out'
  try {
    return {
      name,
      text: detached(text),
      paramHeaders: paramHeadersOf(tool['inputSchema']),
      app: appOf(tool),
      isRepeatable: isRepeatable(tool),
    }
  } catch (error) {
    if (!(error instanceof InvalidParamHeader)) throw error
    return `tool ${name} is left out: ${error.message}`.slice(0, LONGEST_WARNING)
  }
}

function isRepeatable({ annotations }: Readonly<Record<string, unknown>>): boolean {
  return isObject(annotations) && (annotations['idempotentHint'] === true || annotations['readOnlyHint'] === true)
}
