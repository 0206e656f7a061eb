"""What other writers do to a Delta table of sluice: maintain.py TABLE ACTION..."""

import sys
import time

from deltalake import DeltaTable

table = DeltaTable(sys.argv[1])
for action in sys.argv[2:]:
    match action:
        case "short-log":
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 second"})
        case "forget-transactions":
            table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 second"})
        case "clean-log":
            # What is kept counts in whole seconds.
            time.sleep(2.1)
            table.create_checkpoint()
            table.cleanup_metadata()
        case "vacuum":
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
        case "compact":
            print(table.optimize.compact()["numFilesRemoved"])
        case _:
            sys.exit(f"unknown action {action}")
