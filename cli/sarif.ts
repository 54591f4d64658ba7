import type { ManifestFinding } from '../operator/cluster/files/index.ts'

/** Findings as SARIF 2.1.0 (OASIS), which code hosts show beside the lines. */
export function toSarif(findings: readonly ManifestFinding[], version: string): object {
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
