//! What the older versions of the contract have in common: their types are those of the newest, under other names. Columns
//! move from one to the other; their buffers are never copied.

/// The calls of a component of a version, its `types` and `log`, and the conversion of all types. The module says in `named_keys`
/// which keys a computed field names, and implements the host's other functions.
macro_rules! conversions {
    ($version:ident) => {
        use wasmtime::Store;

        use super::super::bindings::v0_3::exports::sluice::transform::transform as new;
        use super::super::bindings::v0_3::sluice::transform::{log, types};
        use super::super::bindings::$version;
        use super::super::bindings::$version::exports::sluice::transform::transform as old;
        use super::super::bindings::$version::sluice::transform::{log as old_log, types as old_types};
        use super::super::sandbox::HostState;

        /// Calls `open` of a component of this version.
        pub(super) fn open(
            plugin: &$version::Plugin,
            store: &mut Store<HostState>,
            table: new::Table<'_>,
            config: &str,
        ) -> wasmtime::Result<Result<new::Plan, new::OpenError>> {
            let fields: Vec<old_types::SourceField<'_>> = table.fields.iter().map(source_field).collect();
            let table = old::Table {
                schema: table.schema,
                name: table.name,
                capture_instance: table.capture_instance,
                fields: &fields,
            };
            let answer = plugin
                .sluice_transform_transform()
                .call_open(store, table, config)?;
            Ok(answer.map(plan).map_err(open_error))
        }

        /// Calls `apply` of a component of this version.
        pub(super) fn apply(
            plugin: &$version::Plugin,
            store: &mut Store<HostState>,
            batch: new::Batch<'_>,
        ) -> wasmtime::Result<Result<new::Outcome, new::ApplyError>> {
            let columns: Vec<old::ColumnParam<'_>> = batch.columns.iter().map(lent_column).collect();
            let batch = old::Batch {
                rows: batch.rows,
                operations: batch.operations,
                columns: &columns,
            };
            let answer = plugin.sluice_transform_transform().call_apply(store, batch)?;
            Ok(answer.map(outcome).map_err(apply_error))
        }

        /// The interface has types alone.
        impl old_types::Host for HostState {}

        impl old_log::Host for HostState {
            fn log(&mut self, level: old_log::Level, message: String) -> wasmtime::Result<()> {
                let level = match level {
                    old_log::Level::Debug => log::Level::Debug,
                    old_log::Level::Info => log::Level::Info,
                    old_log::Level::Warn => log::Level::Warn,
                    old_log::Level::Error => log::Level::Error,
                };
                log::Host::log(self, level, message)
            }
        }

        fn source_field<'a>(field: &types::SourceField<'a>) -> old_types::SourceField<'a> {
            use types::DataType;
            let data_type = match field.data_type {
                DataType::Boolean => old_types::DataType::Boolean,
                DataType::Int16 => old_types::DataType::Int16,
                DataType::Int32 => old_types::DataType::Int32,
                DataType::Int64 => old_types::DataType::Int64,
                DataType::Float32 => old_types::DataType::Float32,
                DataType::Float64 => old_types::DataType::Float64,
                DataType::Decimal(decimal) => old_types::DataType::Decimal(old_types::DecimalType {
                    precision: decimal.precision,
                    scale: decimal.scale,
                }),
                DataType::Date => old_types::DataType::Date,
                DataType::Timestamp => old_types::DataType::Timestamp,
                DataType::TimestampNtz => old_types::DataType::TimestampNtz,
                DataType::Utf8 => old_types::DataType::Utf8,
                DataType::Binary => old_types::DataType::Binary,
            };
            old_types::SourceField {
                name: field.name,
                data_type,
                nullable: field.nullable,
                source_type: field.source_type,
                key: field.key,
            }
        }

        fn data_type(data_type: old_types::DataType) -> types::DataType {
            use old_types::DataType;
            match data_type {
                DataType::Boolean => types::DataType::Boolean,
                DataType::Int16 => types::DataType::Int16,
                DataType::Int32 => types::DataType::Int32,
                DataType::Int64 => types::DataType::Int64,
                DataType::Float32 => types::DataType::Float32,
                DataType::Float64 => types::DataType::Float64,
                DataType::Decimal(decimal) => types::DataType::Decimal(types::DecimalType {
                    precision: decimal.precision,
                    scale: decimal.scale,
                }),
                DataType::Date => types::DataType::Date,
                DataType::Timestamp => types::DataType::Timestamp,
                DataType::TimestampNtz => types::DataType::TimestampNtz,
                DataType::Utf8 => types::DataType::Utf8,
                DataType::Binary => types::DataType::Binary,
            }
        }

        fn lent_column<'a>(column: &new::ColumnParam<'a>) -> old::ColumnParam<'a> {
            old::ColumnParam {
                validity: column.validity,
                offsets: column.offsets,
                values: column.values,
            }
        }

        fn returned_column(column: old::ColumnResult) -> new::ColumnResult {
            new::ColumnResult {
                validity: column.validity,
                offsets: column.offsets,
                values: column.values,
            }
        }

        fn plan(plan: old::Plan) -> new::Plan {
            let outputs = plan.outputs.into_iter().map(|output| new::OutputColumn {
                name: output.name,
                source: match output.source {
                    old::OutputSource::Pass(source) => new::OutputSource::Pass(source),
                    old::OutputSource::Computed(field) => new::OutputSource::Computed(new::ComputedField {
                        keys: named_keys(&field),
                        data_type: data_type(field.data_type),
                        nullable: field.nullable,
                        sources: field.sources,
                        how: field.how,
                    }),
                },
            });
            new::Plan {
                outputs: outputs.collect(),
                reads: plan.reads,
            }
        }

        fn open_error(error: old::OpenError) -> new::OpenError {
            match error {
                old::OpenError::Config(problem) => new::OpenError::Config(new::ConfigProblem {
                    path: problem.path,
                    reason: problem.reason,
                }),
                old::OpenError::Unlisted(columns) => new::OpenError::Unlisted(columns),
                old::OpenError::Missing(columns) => new::OpenError::Missing(columns),
                old::OpenError::Unsupported(problem) => new::OpenError::Unsupported(new::ColumnProblem {
                    column: problem.column,
                    reason: problem.reason,
                }),
            }
        }

        fn outcome(outcome: old::Outcome) -> new::Outcome {
            let rejects = outcome.rejects.into_iter().map(|reject| new::Reject {
                row: reject.row,
                column: reject.column,
                code: reject.code,
            });
            new::Outcome {
                columns: outcome.columns.into_iter().map(returned_column).collect(),
                dropped: outcome.dropped,
                rejects: rejects.collect(),
            }
        }

        fn apply_error(error: old::ApplyError) -> new::ApplyError {
            new::ApplyError {
                code: error.code,
                column: error.column,
                row: error.row,
                message: error.message,
            }
        }

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn the_buffers_of_a_column_are_moved_and_not_copied() {
                let column = old::ColumnResult {
                    validity: Some(vec![0b11]),
                    offsets: vec![0, 1, 2],
                    values: b"ab".to_vec(),
                };
                let before = (
                    column.validity.as_ref().unwrap().as_ptr(),
                    column.offsets.as_ptr(),
                    column.values.as_ptr(),
                );
                let moved = returned_column(column);
                let after = (
                    moved.validity.as_ref().unwrap().as_ptr(),
                    moved.offsets.as_ptr(),
                    moved.values.as_ptr(),
                );
                assert_eq!(before, after);
                assert_eq!((moved.offsets, moved.values), (vec![0, 1, 2], b"ab".to_vec()));
            }

            #[test]
            fn every_type_is_the_same_in_both_versions() {
                use types::DataType;
                for same in [
                    DataType::Boolean,
                    DataType::Int16,
                    DataType::Int32,
                    DataType::Int64,
                    DataType::Float32,
                    DataType::Float64,
                    DataType::Decimal(types::DecimalType {
                        precision: 38,
                        scale: 7,
                    }),
                    DataType::Date,
                    DataType::Timestamp,
                    DataType::TimestampNtz,
                    DataType::Utf8,
                    DataType::Binary,
                ] {
                    let field = types::SourceField {
                        name: "a",
                        data_type: same,
                        nullable: true,
                        source_type: "int",
                        key: Some(2),
                    };
                    let old = source_field(&field);
                    assert_eq!(data_type(old.data_type), same);
                    assert_eq!((old.name, old.source_type, old.key), ("a", "int", Some(2)));
                }
            }
        }
    };
}

pub(super) use conversions;
