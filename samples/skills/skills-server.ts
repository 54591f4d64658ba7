/** A server of one skill, which the environment variable SKILL names, on the SDK: what `portico run` starts here. */
import { McpServer } from '@modelcontextprotocol/server'
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'

const name = process.env['SKILL'] ?? 'refunds'
const skills = await SkillsExtension.load(
  memorySkillFiles({
    [`${name}/SKILL.md`]: `---\nname: ${name}\ndescription: How we handle ${name}.\n---\n\nRead references/RULES.md first.\n`,
    [`${name}/references/RULES.md`]: `The rules of ${name}.\n`,
  }),
)
const server = new McpServer({ name, version: '1.0.0' }, { capabilities: { resources: {} } })
skills.attach(server)
await server.connect(new StdioServerTransport())
