/**
 * Traces of trilog itself, as the standard variables of OpenTelemetry ask for them. Unlike an SDK, which exports to this machine by default, trilog
 * exports only when an endpoint or an exporter is named.
 *
 * Source: OpenTelemetry specification, "Environment Variable Specification" and "OpenTelemetry Protocol Exporter".
 */
import { flag, httpUrl, optional, ratio, text } from './settings.ts'
import type { SettingsOf } from './settings.ts'

export const tracingSettings = {
  OTEL_SDK_DISABLED: flag({ default: 'false', description: 'true: no traces, even if other settings ask for them' }),
  OTEL_TRACES_EXPORTER: optional(
    text({
      description:
        'Traces of trilog itself: `otlp` exports them, `none` does not. Unset: they are exported when an endpoint is set',
    }),
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    httpUrl({ description: 'URL of the collector; traces go to `/v1/traces` below it as OTLP/HTTP JSON' }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: optional(
    httpUrl({ description: 'Full URL that traces go to, instead of OTEL_EXPORTER_OTLP_ENDPOINT' }),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: optional(
    text({ description: 'Headers for the collector: `name=value,name=value`, percent-encoded' }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: optional(
    text({ description: 'Likewise, for traces alone: it wins over OTEL_EXPORTER_OTLP_HEADERS' }),
  ),
  OTEL_SERVICE_NAME: text({ default: 'trilog', description: 'Name of this process in its traces' }),
  OTEL_RESOURCE_ATTRIBUTES: optional(
    text({ description: 'Further attributes of this process in its traces: `key=value,key=value`, percent-encoded' }),
  ),
  OTEL_TRACES_SAMPLER: text({
    default: 'parentbased_always_on',
    description:
      'Which requests are traced: `always_on`, `always_off` or `traceidratio`; with `parentbased_` before it, the decision of the caller comes first',
  }),
  OTEL_TRACES_SAMPLER_ARG: ratio({ default: '1', description: 'The share of `traceidratio`, from 0 to 1' }),
}

export interface Sampler {
  /** Whether the caller's decision is followed. */
  readonly followsParent: boolean
  /** Share of the traces that begin here, or of all. */
  readonly share: number
}

export interface TracingConfig {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly resource: Readonly<Record<string, string>>
  readonly sampler: Sampler
}

const DEFAULT_ENDPOINT = 'http://localhost:4318'

/** Null: no traces. Values that an SDK would ignore with a warning are ignored. */
export function tracingOf(settings: SettingsOf<typeof tracingSettings>): TracingConfig | null {
  const { OTEL_TRACES_EXPORTER: exporter, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = settings
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracesEndpoint } = settings
  const isNamed = exporter === null ? (endpoint ?? tracesEndpoint) !== null : exporter.split(',').includes('otlp')
  if (settings.OTEL_SDK_DISABLED || !isNamed) return null
  const headers = settings.OTEL_EXPORTER_OTLP_TRACES_HEADERS ?? settings.OTEL_EXPORTER_OTLP_HEADERS
  const resource = { ...pairsOf(settings.OTEL_RESOURCE_ATTRIBUTES), 'service.name': settings.OTEL_SERVICE_NAME }
  return {
    url: tracesEndpoint ?? `${(endpoint ?? DEFAULT_ENDPOINT).replace(/\/$/, '')}/v1/traces`,
    headers: Object.fromEntries(Object.entries(pairsOf(headers)).map(([name, value]) => [name.toLowerCase(), value])),
    resource,
    sampler: samplerOf(settings.OTEL_TRACES_SAMPLER, settings.OTEL_TRACES_SAMPLER_ARG),
  }
}

function samplerOf(name: string, share: number): Sampler {
  const followsParent = name.startsWith('parentbased_')
  const own = name.replace('parentbased_', '')
  return { followsParent, share: own === 'always_off' ? 0 : own === 'traceidratio' ? share : 1 }
}

/** `key=value,key=value`, percent-encoded, as W3C Baggage has it. */
function pairsOf(list: string | null): Record<string, string> {
  const pairs = (list ?? '').split(',').flatMap((pair) => {
    const at = pair.indexOf('=')
    return at < 1 ? [] : [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())] as const]
  })
  return Object.fromEntries(pairs)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
