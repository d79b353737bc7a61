import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'
import type { TracingConfig } from '../../src/config/tracing.ts'

const tracingOf = (env: Record<string, string>): TracingConfig | null => loadConfig(env).tracing

describe('traces of trilog itself', () => {
  it('are exported only when somebody asks for them', () => {
    assert.equal(tracingOf({}), null)
    assert.equal(tracingOf({ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_HEADERS: 'a=b' }), null)
    const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://collector:4318/'
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT })!.url, 'http://collector:4318/v1/traces')
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }), null)
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER: 'console' }), null)
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: 'true' }), null)
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: 'True' }), null)
    assert.notEqual(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: 'FALSE' }), null)
    assert.equal(tracingOf({ OTEL_TRACES_EXPORTER: 'otlp' })!.url, 'http://localhost:4318/v1/traces')
    const whole = 'http://x/v1/otlp/traces'
    assert.equal(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: whole })!.url, whole)
  })

  it('have the headers, the name and the attributes of the standard variables', () => {
    const { headers, resource } = tracingOf({
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20t, x-a = b=c,bad',
      OTEL_RESOURCE_ATTRIBUTES: 'tenant_id=local,service.name=other,host.name=%zz',
      OTEL_SERVICE_NAME: 'mine',
    })!
    assert.deepEqual(headers, { authorization: 'Bearer t', 'x-a': 'b=c' })
    assert.deepEqual(resource, { tenant_id: 'local', 'service.name': 'mine', 'host.name': '%zz' })
  })

  it('are sampled as the standard variables say', () => {
    const samplerOf = (name: string, share?: string) =>
      tracingOf({
        OTEL_TRACES_EXPORTER: 'otlp',
        OTEL_TRACES_SAMPLER: name,
        ...(share && { OTEL_TRACES_SAMPLER_ARG: share }),
      })!.sampler
    assert.deepEqual(samplerOf(''), { followsParent: true, share: 1 })
    assert.deepEqual(samplerOf('always_off'), { followsParent: false, share: 0 })
    assert.deepEqual(samplerOf('traceidratio', '0.25'), { followsParent: false, share: 0.25 })
    assert.deepEqual(samplerOf('parentbased_traceidratio', '0.5'), { followsParent: true, share: 0.5 })
    assert.deepEqual(samplerOf('traceidratio', '1e-4'), { followsParent: false, share: 0.0001 })
    assert.deepEqual(samplerOf('traceidratio', '.00000000001'), { followsParent: false, share: 1e-11 })
    for (const wrong of ['all', '1.01', '-0.1', '0x1', '1e1', '.']) {
      assert.throws(() => samplerOf('traceidratio', wrong), {
        message: 'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, as in 0.01',
      })
    }
  })
})
