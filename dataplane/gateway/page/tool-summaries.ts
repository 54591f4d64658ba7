import { type Catalog, countShownTools } from '../aggregation/catalog.ts'
import { Elements, memberText } from '../mcp/json.ts'

export interface ToolSummary {
  readonly name: string
  readonly description: string
}

interface ToolSummaries {
  /** The first tools, in the catalog's order. */
  readonly tools: readonly ToolSummary[]
  readonly total: number
  /** The number of tools of each backend that has any, by its name. */
  readonly countOf: ReadonlyMap<string, number>
}

/** The most tools on a page. */
const MOST_TOOLS = 200
const LONGEST_NAME = 128
const LONGEST_DESCRIPTION = 300
/**
 * The most bytes of the list that are parsed for the page. They hold some thousand ordinary tools and take a few
 * milliseconds.
 */
const MOST_READ = 2 ** 21
/** The longest JSON text of a description that is read. */
const MOST_DESCRIPTION_READ = 2 ** 16

const made = new WeakMap<Catalog, ToolSummaries>()

/** Returns short descriptions of a catalog's tools, computed once. */
export function toolSummaries(catalog: Catalog): ToolSummaries {
  let summaries = made.get(catalog)
  if (summaries === undefined) made.set(catalog, (summaries = summarize(catalog)))
  return summaries
}

function summarize(catalog: Catalog): ToolSummaries {
  const { routes, legacyList } = catalog
  const countOf = countShownTools(catalog)
  // The text may end within a tool. That tool is left out.
  const text = legacyList.subarray(0, MOST_READ).toString()
  const elements = new Elements(text, text.indexOf('['))
  const tools: ToolSummary[] = []
  while (tools.length < MOST_TOOLS && elements.next()) {
    const tool = elements.value
    tools.push({ name: stringMember(tool, 'name', LONGEST_NAME), description: readDescription(tool) })
  }
  return { tools, total: routes.size, countOf }
}

const readDescription = (tool: string) =>
  stringMember(tool, 'description', LONGEST_DESCRIPTION) || stringMember(tool, 'title', LONGEST_DESCRIPTION)

/** Returns a string member, cut to `longest`; empty if there is none. */
function stringMember(object: string, name: string, longest: number): string {
  const text = memberText(object, name)
  if (text === undefined || text.length > MOST_DESCRIPTION_READ || !text.startsWith('"')) return ''
  try {
    return shortened(JSON.parse(text) as string, longest)
  } catch {
    return ''
  }
}

/** Cuts a text to `longest` characters; a cut text ends in an ellipsis. */
export const shortened = (text: string, longest: number): string =>
  (text.length <= longest ? text : `${text.slice(0, longest - 1)}…`).toWellFormed()
