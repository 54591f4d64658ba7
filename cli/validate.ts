import { checkManifests, inspectManifests, type ManifestFinding } from '../operator/cluster/files/index.ts'
import type { Command } from './command.ts'
import { formatSummary, hasErrors, printFindings } from './findings.ts'
import { groupOption, readApiGroup, readManifestPaths } from './options/manifests.ts'
import { podTemplateOption, readPodTemplate } from './options/pod-options.ts'
import { defaultImage, version } from './package-info.ts'
import { pinTextFindings } from './pin/text-files.ts'

/** Formats findings as SARIF 2.1.0 (OASIS), which code hosts show beside the lines. */
function toSarif(findings: readonly ManifestFinding[], version: string): object {
  const rules = [...new Set(findings.map(({ reason }) => reason))].sort()
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'portico', version, rules: rules.map((id) => ({ id })) } },
        results: findings.map(({ reason, severity, message, pointer, file, line }) => ({
          ruleId: reason,
          level: severity,
          message: { text: pointer ? `${pointer}: ${message}` : message },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: encodeURI(file.replaceAll('\\', '/')) },
                region: { startLine: line },
              },
              ...(pointer ? { logicalLocations: [{ fullyQualifiedName: pointer }] } : {}),
            },
          ],
        })),
      },
    ],
  }
}

export const command: Command = {
  name: 'validate',
  synopsis: 'DIR|FILE … [options]',
  about: `Checks manifests as a cluster would, without one: YAML as kubectl reads it, schema, rules, references between
objects, and the texts beside MCPPins with the digests in them. Secrets may be missing: they are expected in the cluster. Exits 1 when there is an error; warnings and notes
alone exit 0. Text goes to standard error, one finding a line: FILE:LINE: SEVERITY: POINTER: MESSAGE (REASON).`,
  options: {
    output: { type: 'string', value: ['text', 'json', 'sarif'], default: 'text', description: 'Form of the output.' },
    'pod-template': podTemplateOption,
    'api-group': groupOption,
  },
  async run(given, io) {
    const inspection = inspectManifests(readManifestPaths(given), {
      group: readApiGroup(given, io),
      image: defaultImage,
      ...readPodTemplate(given),
    })
    const { set } = inspection
    const findings = [...inspection.findings, ...pinTextFindings(checkManifests(set).valid)]
    const output = given.text('output')
    if (output === 'json') {
      io.out(`${JSON.stringify({ objects: set.manifests.length, group: set.group, findings })}\n`)
    } else if (output === 'sarif') io.out(`${JSON.stringify(toSarif(findings, version), null, 2)}\n`)
    else {
      printFindings(findings, io)
      io.out(`${formatSummary({ ...inspection, findings })}\n`)
    }
    return hasErrors(findings) ? 1 : 0
  },
}
