"""Problems that the checks report, with their texts."""
